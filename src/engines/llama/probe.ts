import { execFile } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { BuildChoice } from "./builds/builds.js";
import { bindingModule, redirectedPackages } from "./child/open-binding.js";
import { childEnvironment } from "./child-process.js";

/** The graphics support that the binding found on this machine. */
export interface ProbeResult {
  readonly version: string;
  /** Kind of graphics support in use; null: the processor. */
  readonly gpu: string | null;
  /** Names of the cards in use. */
  readonly devices: readonly string[];
  /** Memory of the cards, bytes. */
  readonly freeBytes: number;
  readonly totalBytes: number;
  /** Chosen builds that do not load. */
  readonly unusable: readonly string[];
}

export interface ProbeOptions {
  /** The server's environment variables; the probe gets those that a model's process would get. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly timeoutMs: number;
  readonly outputBytesMax: number;
  readonly signal?: AbortSignal;
}

/**
 * Opens the binding as `openBinding` does, and prints a ProbeResult. A text instead of a module, because in the repository a
 * module would need a compiler at run time, which takes longer than the probe. It is not run with `--eval`: the binding starts
 * one more process with the same options of Node, which would run this program again.
 */
const program = `
import { register } from "node:module";
process.execArgv = [];
const { gpus, module, redirect } = JSON.parse(process.argv[1]);
if (redirect !== null) register(redirect.loader, { data: redirect.files });
const { getLlama, getModuleVersion, NoBinaryFoundError } = await import(module);
const unusable = [];
let llama;
for (const gpu of gpus) {
  try {
    llama = await getLlama({ build: "never", gpu, skipDownload: true, progressLogs: false, logger() {} });
    break;
  } catch (error) {
    if (gpu === gpus.at(-1) || !(error instanceof NoBinaryFoundError)) throw error;
    unusable.push(String(gpu));
  }
}
const isCard = llama.gpu !== false;
const memory = isCard ? await llama.getVramState() : { free: 0, total: 0 };
console.log(JSON.stringify({
  version: await getModuleVersion(),
  gpu: isCard ? llama.gpu : null,
  devices: isCard ? await llama.getGpuDeviceNames() : [],
  freeBytes: memory.free,
  totalBytes: memory.total,
  unusable,
}));
process.exit();
`;

/**
 * Opens the binding in a separate process, because native code may crash it. Rejects with the error of `execFile` if no build
 * of the choice loads.
 */
export async function probe(build: BuildChoice, options: ProbeOptions): Promise<ProbeResult> {
  const { env, timeoutMs, outputBytesMax, signal } = options;
  const given = { gpus: build.gpus, module: bindingModule(build), redirect: redirectedPackages(build) };
  const args = ["--input-type=module", "--eval", program, JSON.stringify(given)];
  const { stdout } = await promisify(execFile)(process.execPath, args, {
    // From this folder Node finds the same binding as from a model's process.
    cwd: dirname(fileURLToPath(import.meta.url)),
    env: childEnvironment(env),
    timeout: timeoutMs,
    killSignal: "SIGKILL",
    maxBuffer: outputBytesMax,
    ...(signal === undefined ? {} : { signal }),
  });
  return JSON.parse(stdout) as ProbeResult;
}
