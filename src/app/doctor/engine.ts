import { execFile } from "node:child_process";
import { stat } from "node:fs/promises";
import { totalmem } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { StoredModel } from "../../domain/catalog/model-store.js";

import { byteText } from "../../lib/display-text.js";
import { defaultContextLength } from "../compose/model-catalog.js";
import { inspectModelFile } from "../compose/model-store.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { engineKind, gpuSupport } from "../engines/registry.js";
import { type Check, fail, ok, warn } from "./check.js";

const loadTimeoutMs = 10_000;
const outputBytesMax = 65_536;

/**
 * Native code may end its process, so it is loaded in another one, whose working folder says which build is found. The
 * binding starts one more with the same options of Node, where `--eval` would make this program run again.
 */
const argumentsFor = (gpu: string): readonly string[] => [
  "--input-type=module",
  "--eval",
  `
process.execArgv = [];
const { getLlama, getModuleVersion } = await import("node-llama-cpp");
await getLlama({ build: "never", gpu: ${gpu}, skipDownload: true, progressLogs: false, logger() {} });
console.log(await getModuleVersion());
process.exit();
`,
];

/** Whether the binary of the embedded engine loads on this machine, as its own processes load it. The signal ends the look. */
export async function engineCheck(
  { engine }: Pick<Config, "engine">,
  env: Variables,
  signal?: AbortSignal,
): Promise<Check> {
  const { module_dir: moduleDir } = engine;
  if (moduleDir === null) {
    const ownFolder = dirname(fileURLToPath(import.meta.url));
    return loadCheck(
      { folder: ownFolder, gpu: gpuOf(null), fix: "install again without --omit=optional" },
      env,
      signal,
    );
  }
  const fix = "install node-llama-cpp there, or leave out engine.module_dir";
  if ((await stat(join(moduleDir, "node_modules", "node-llama-cpp")).catch(() => null)) === null) {
    return fail("engine", `there is no node-llama-cpp in ${moduleDir}`, fix);
  }
  return loadCheck({ folder: moduleDir, gpu: gpuOf(moduleDir), fix }, env, signal);
}

/** As the engine loads it, as source text. */
const gpuOf = (moduleDir: string | null): string => JSON.stringify(gpuSupport(process, moduleDir));

interface Build {
  /** Where it is looked for, as a module in that folder would find it. */
  readonly folder: string;
  readonly gpu: string;
  /** What to do when it does not load. */
  readonly fix: string;
}

async function loadCheck({ folder, gpu, fix }: Build, env: Variables, signal?: AbortSignal): Promise<Check> {
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [...argumentsFor(gpu)], {
      cwd: folder,
      env: { PATH: env["PATH"], HOME: env["HOME"], LD_LIBRARY_PATH: env["LD_LIBRARY_PATH"] },
      timeout: loadTimeoutMs,
      killSignal: "SIGKILL",
      maxBuffer: outputBytesMax,
      ...(signal === undefined ? {} : { signal }),
    });
    return ok("engine", `node-llama-cpp ${stdout.trim()} loads`);
  } catch (error) {
    return fail("engine", `node-llama-cpp cannot be loaded: ${reasonOf(error)}`, fix);
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if ("killed" in error && error.killed === true) return `no answer within ${loadTimeoutMs / 1_000} s`;
  const said = "stderr" in error ? String(error.stderr) : "";
  return /^\w*Error.*$/m.exec(said)?.[0] ?? error.message.split("\n", 1)[0] ?? "";
}

/** Of the memory: what the service itself, the system and the engine's buffers need is not counted. */
const comfortableShare = 0.85;

type KeptModel = Pick<StoredModel, "id" | "kind" | "path" | "bytes" | "contextLength">;

/** A model as it would run. */
interface Planned {
  readonly model: KeptModel;
  /** Of each slot. */
  readonly contextLength: number;
  readonly slots: number;
}

/** Whether the kept models that a start loads find room in memory, with their contexts. */
export async function memoryCheck(config: Pick<Config, "models">, kept: readonly KeptModel[]): Promise<Check> {
  const sizes = await Promise.all(plannedOf(config, kept).map(bytesOf));
  return judgeMemory(
    sizes.reduce((sum, bytes) => sum + bytes, 0),
    memoryBytes(),
  );
}

/** `neededBytes` of models and contexts, `availableBytes` of memory that this process may use. */
export function judgeMemory(neededBytes: number, availableBytes: number): Check {
  const detail = `${byteText(availableBytes)} of memory; models and contexts take ${byteText(neededBytes)}`;
  const fix = "set context_length or slots of the models lower, use smaller models, or give the machine more memory";
  if (neededBytes > availableBytes) return fail("memory", detail, fix);
  if (neededBytes > comfortableShare * availableBytes) return warn("memory", detail, fix);
  return ok("memory", detail);
}

/** Of the machine, or of the container when that is less. */
function memoryBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

function plannedOf({ models }: Pick<Config, "models">, kept: readonly KeptModel[]): readonly Planned[] {
  if (models === null) {
    return kept.map((model) => ({
      model,
      contextLength: defaultContextLength,
      slots: engineKind("llama").defaults.slots,
    }));
  }
  return models.flatMap((settings) => {
    const model = kept.find(({ id }) => id === settings.id);
    if (model === undefined) return [];
    return (settings.deployments ?? [settings])
      .filter(({ engine }) => engine === "llama")
      .map(({ context_length, slots }) => ({
        model,
        contextLength: context_length ?? defaultContextLength,
        slots: slots ?? engineKind("llama").defaults.slots,
      }));
  });
}

/** Its weights and, of a model that writes, what it keeps of each token of each slot. Encoders keep nothing. */
async function bytesOf({ model, contextLength, slots }: Planned): Promise<number> {
  if (model.kind === "embedding") return model.bytes;
  const { contextBytesPerToken } = await inspectModelFile(model.path);
  return model.bytes + slots * Math.min(contextLength, model.contextLength) * (contextBytesPerToken ?? 0);
}
