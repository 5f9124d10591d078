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
 * Native code may crash its process, so another one loads it; its working folder decides which build is found. The binding
 * starts one more process with the same options of Node, where `--eval` would run this program again.
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

/** Whether the binary of the embedded engine loads on this machine, as in its own processes. The signal aborts the check. */
export async function engineCheck(
  { engine }: Pick<Config, "engine">,
  env: Variables,
  signal?: AbortSignal,
): Promise<Check> {
  const { module_dir: moduleDir } = engine;
  const gpu = JSON.stringify(gpuSupport(process, moduleDir));
  if (moduleDir === null) {
    const folder = dirname(fileURLToPath(import.meta.url));
    return loadCheck({ folder, gpu, fix: "install again without --omit=optional" }, env, signal);
  }
  const fix = "install node-llama-cpp there, or remove engine.module_dir";
  if ((await stat(join(moduleDir, "node_modules", "node-llama-cpp")).catch(() => null)) === null) {
    return fail("engine", `there is no node-llama-cpp in ${moduleDir}`, fix);
  }
  return loadCheck({ folder: moduleDir, gpu, fix }, env, signal);
}

interface Build {
  /** Folder from which a module would find it. */
  readonly folder: string;
  /** GPU support as source text. */
  readonly gpu: string;
  /** Remedy if it does not load. */
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
  const output = "stderr" in error ? String(error.stderr) : "";
  return /^\w*Error.*$/m.exec(output)?.[0] ?? error.message.split("\n", 1)[0] ?? "";
}

/** Share of the memory for models; the rest is for the service, the system and the engine's buffers. */
const comfortableShare = 0.85;

type LocalModel = Pick<StoredModel, "id" | "kind" | "path" | "bytes" | "contextLength">;

/** A deployment that a start would load. */
interface Planned {
  readonly model: LocalModel;
  /** Per slot. */
  readonly contextLength: number;
  readonly slots: number;
}

/** Whether the stored models that a start loads fit in memory with their contexts. */
export async function memoryCheck(config: Pick<Config, "models">, stored: readonly LocalModel[]): Promise<Check> {
  const sizes = await Promise.all(plannedOf(config, stored).map(bytesOf));
  const neededBytes = sizes.reduce((sum, bytes) => sum + bytes, 0);
  return judgeMemory(neededBytes, memoryBytes());
}

/** `neededBytes`: of models and contexts; `availableBytes`: memory that this process may use. */
export function judgeMemory(neededBytes: number, availableBytes: number): Check {
  const detail = `${byteText(availableBytes)} of memory; models and contexts take ${byteText(neededBytes)}`;
  const fix = "reduce context_length or slots of the models, use smaller models, or add memory";
  if (neededBytes > availableBytes) return fail("memory", detail, fix);
  if (neededBytes > comfortableShare * availableBytes) return warn("memory", detail, fix);
  return ok("memory", detail);
}

/** Memory of the machine, or of the container if that is less. */
function memoryBytes(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

function plannedOf({ models }: Pick<Config, "models">, stored: readonly LocalModel[]): readonly Planned[] {
  const { slots: slotsDefault } = engineKind("llama").defaults;
  if (models === null) {
    return stored.map((model) => ({ model, contextLength: defaultContextLength, slots: slotsDefault }));
  }
  return models.flatMap((settings) => {
    const model = stored.find(({ id }) => id === settings.id);
    const deployments = (settings.deployments ?? [settings]).filter(({ engine }) => engine === "llama");
    if (model === undefined) return [];
    return deployments.map(({ context_length: contextLength, slots = slotsDefault }) => {
      return { model, contextLength: contextLength ?? defaultContextLength, slots };
    });
  });
}

/** Weights and, for a chat model, the context of every slot. Embedding models keep no context. */
async function bytesOf({ model, contextLength, slots }: Planned): Promise<number> {
  if (model.kind === "embedding") return model.bytes;
  const { contextBytesPerToken } = await inspectModelFile(model.path);
  return model.bytes + slots * Math.min(contextLength, model.contextLength) * (contextBytesPerToken ?? 0);
}
