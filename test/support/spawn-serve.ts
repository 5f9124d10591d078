import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { uisProgram } from "./program.js";

/** What `uis serve --json` prints. */
export interface ReadyLine {
  readonly event: "ready";
  readonly version: string;
  readonly api: string;
  readonly grpc: string;
  readonly ops: string;
  readonly dashboard: string | null;
  readonly api_key: {
    readonly id: string;
    readonly name: string;
    readonly scope: string;
    readonly secret: string;
  } | null;
  readonly models: readonly string[];
  readonly data_dir: string;
  readonly state: string;
}

/** `uis serve` in a process of its own. */
export interface ServeProcess {
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** Resolves with the first line of stdout; rejects when the process ends before. */
  readonly ready: Promise<ReadyLine>;
  /** Exit code, or the signal that ended it. */
  readonly exited: Promise<number | string>;
}

export interface SpawnOptions {
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Arguments of Node itself, where no command is given. */
  readonly nodeArgs?: readonly string[];
  /** What to run; default: `uis serve`. */
  readonly command?: readonly string[];
  /** Makes another command line of it, such as one of a program that runs it. */
  readonly under?: (command: readonly string[]) => readonly string[];
}

/** Ports are free ones unless `args` or `env` say otherwise. The caller ends the process. */
export function spawnServe(options: SpawnOptions): ServeProcess {
  const { args = ["--json"], env = {}, cwd, nodeArgs = [], under = (command) => command } = options;
  const command = options.command ?? [process.execPath, ...nodeArgs, ...uisProgram, "serve"];
  const [program = "", ...rest] = under(command);
  const child = spawn(program, [...rest, ...args], {
    cwd,
    env: { PATH: process.env["PATH"], PORT: "0", UIS_GRPC_PORT: "0", UIS_OPS_PORT: "0", UIS_OFFLINE: "1", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const written = { stdout: "", stderr: "" };
  const exited = once(child, "close").then(([code, signal]: (number | string | null)[]) => code ?? signal ?? "unknown");
  const ready = new Promise<ReadyLine>((resolve, reject) => {
    child.stdout.on("data", (data: Buffer) => {
      written.stdout += data;
      const [line, end] = written.stdout.split("\n", 2);
      if (end !== undefined && line?.startsWith("{")) resolve(JSON.parse(line) as ReadyLine);
    });
    exited.then((how) => reject(new Error(`serve ended with ${how}: ${written.stderr}`)), reject);
  });
  // Tests of a failing start look at `exited` only.
  ready.catch(() => {});
  child.stderr.on("data", (data: Buffer) => {
    written.stderr += data;
  });
  return { child, ready, exited, stdout: () => written.stdout, stderr: () => written.stderr };
}
