import { spawn } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";

export interface NpmRun {
  /** Variables of npm, among them the operator's registry, proxy and credentials. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly timeoutMs: number;
  /** Its abort kills npm; the promise rejects with its reason. */
  readonly signal: AbortSignal;
}

/** npm was not found, or it failed; the message has the end of its output. */
export class NpmError extends Error {
  override readonly name = "NpmError";
}

const outputCharsMax = 4 * 1024 * 1024;
const quotedCharsMax = 1_000;

/** Runs npm with its own configuration and returns its standard output. Rejects with NpmError or the signal's reason. */
export function runNpm(args: readonly string[], { env, cwd, timeoutMs, signal }: NpmRun): Promise<string> {
  signal.throwIfAborted();
  const [command, ...first] = npmCommand(env);
  return new Promise((resolve, reject) => {
    const child = spawn(command, [...first, ...args], { cwd, env: { ...env }, stdio: ["ignore", "pipe", "pipe"] });
    let stdout = "";
    let stderr = "";
    const kill = (): void => void child.kill("SIGKILL");
    const timer = setTimeout(() => {
      stderr += `\nit did not finish within ${timeoutMs / 1_000} s`;
      kill();
    }, timeoutMs);
    signal.addEventListener("abort", kill, { once: true });
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout = (stdout + text).slice(-outputCharsMax);
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr = (stderr + text).slice(-outputCharsMax);
    });
    const settle = (end: () => void): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", kill);
      if (signal.aborted) reject(signal.reason as Error);
      else end();
    };
    child.once("error", (cause) =>
      settle(() => reject(new NpmError(`npm cannot be started: ${cause.message}`, { cause }))),
    );
    child.once("close", (code) =>
      settle(() => (code === 0 ? resolve(stdout) : reject(new NpmError(`npm failed: ${reasonOf(stderr, code)}`)))),
    );
  });
}

/** The error lines of npm, without its prefix and the reference to a log file. */
function reasonOf(stderr: string, code: number | null): string {
  const lines = stderr.split("\n").map((line) => line.replace(/^npm (error|ERR!) ?/, "").trim());
  const said = lines.filter((line) => line !== "" && !/^npm (warn|notice)|complete log of this run|_logs/i.test(line));
  return said.join("; ").slice(0, quotedCharsMax) || `exit code ${code}`;
}

/**
 * The command line of npm. Its program is run by this Node, because Windows has only `npm.cmd`, which cannot be started
 * without a shell.
 */
export function npmCommand(
  env: NpmRun["env"],
  { execPath, platform }: Pick<NodeJS.Process, "execPath" | "platform"> = process,
): readonly [string, ...string[]] {
  const isWindows = platform === "win32";
  const bin = dirname(execPath);
  const modules = "node_modules/npm/bin/npm-cli.js";
  const path = env["PATH"] ?? env["Path"] ?? "";
  const onPath = path.split(delimiter).flatMap((folder) => programIn(folder, isWindows));
  const running = env["npm_execpath"]?.endsWith("npm-cli.js") ? [env["npm_execpath"]] : [];
  const beside = isWindows ? [join(bin, modules)] : [join(bin, "../lib", modules)];
  const found = [...running, ...beside, ...onPath].find((file) => existsSync(file));
  if (found !== undefined) return [execPath, found];
  throw new NpmError("npm was not found: install it, or put it on the PATH");
}

/** The JavaScript file of the command npm in a folder of the PATH; none if the folder has no npm. */
function programIn(folder: string, isWindows: boolean): readonly string[] {
  const command = join(folder, isWindows ? "npm.cmd" : "npm");
  if (folder === "" || !existsSync(command)) return [];
  return [isWindows ? join(folder, "node_modules/npm/bin/npm-cli.js") : realpathSync(command)];
}
