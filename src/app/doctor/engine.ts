import { stat } from "node:fs/promises";
import { totalmem } from "node:os";
import { join } from "node:path";
import type { StoredModel } from "../../domain/catalog/model-store.js";
import { byteText } from "../../lib/display-text.js";
import { defaultContextLength } from "../compose/model-catalog.js";
import { inspectModelFile } from "../compose/model-store.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { chooseInstalledBuild } from "../engines/build-list.js";
import { type BuildChoice, engineKind, type ProbeResult, probe } from "../engines/registry.js";
import { type Check, fail, ok, warn } from "./check.js";

const loadTimeoutMs = 10_000;
/** Time limit with a graphics card, whose driver starts slowly the first time. */
const cardTimeoutMs = 60_000;
const outputBytesMax = 65_536;

/**
 * Whether the binary of the embedded engine loads on this machine, as in its own processes. Native code may crash its
 * process, so a separate process loads it. The signal aborts the check. `data_dir` is absolute.
 */
export async function engineCheck(
  { engine, data_dir: dataDir }: Pick<Config, "engine" | "data_dir">,
  env: Variables,
  signal?: AbortSignal,
): Promise<Check> {
  const { module_dir: moduleDir } = engine;
  const build = await chooseInstalledBuild(engine, dataDir);
  if (moduleDir === null) return loadCheck(build, "uis engine install cpu", env, signal);
  const fix = "install node-llama-cpp there, or remove engine.module_dir";
  if ((await stat(join(moduleDir, "node_modules", "node-llama-cpp")).catch(() => null)) === null) {
    return fail("engine", `there is no node-llama-cpp in ${moduleDir}`, fix);
  }
  return loadCheck(build, fix, env, signal);
}

/** `fix`: remedy if no build loads. */
async function loadCheck(build: BuildChoice, fix: string, env: Variables, signal?: AbortSignal): Promise<Check> {
  const timeoutMs = build.gpus[0] === false ? loadTimeoutMs : cardTimeoutMs;
  try {
    return describeProbe(await probe(build, { env, timeoutMs, outputBytesMax, ...(signal && { signal }) }));
  } catch (error) {
    return fail("engine", `node-llama-cpp cannot be loaded: ${reasonOf(error, timeoutMs)}`, fix);
  }
}

/** The check for a result of the probe. Exported for tests, because a result depends on the machine. */
export function describeProbe({ version, gpu, devices, freeBytes, totalBytes, unusable }: ProbeResult): Check {
  const memory = `${byteText(freeBytes)} of ${byteText(totalBytes)} free`;
  const where = gpu === null ? "" : ` with ${gpu} on ${devices.join(", ") || "the graphics card"}, ${memory}`;
  const detail = `node-llama-cpp ${version} loads${where}`;
  if (unusable.length === 0) return ok("engine", detail);
  const cuda =
    "install NVIDIA's driver and the CUDA 12 or 13 runtime (libcudart, libcublas), or: uis engine install vulkan";
  const vulkan = "install the card's driver with Vulkan (Debian, Ubuntu: libvulkan1, mesa-vulkan-drivers)";
  const remedy = unusable.includes("cuda") ? cuda : vulkan;
  const failed = unusable.length === 1 ? `the build ${unusable[0]} does` : `the builds ${unusable.join(" and ")} do`;
  return warn("engine", `${detail}; ${failed} not load here`, remedy);
}

function reasonOf(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return String(error);
  if ("killed" in error && error.killed === true) return `no answer within ${timeoutMs / 1_000} s`;
  const output = "stderr" in error ? String(error.stderr) : "";
  return /^\w*Error.*$/m.exec(output)?.[0] ?? error.message.split("\n", 1)[0] ?? "";
}

/** Share of the memory for models; the rest is for the service, the system and the engine's buffers. */
const comfortableShare = 0.85;

type LocalModel = Pick<StoredModel, "id" | "kind" | "path" | "bytes" | "contextLength">;

/** A deployment that a start would load. */
interface Planned {
  readonly model: LocalModel;
  /** Tokens of context per slot. */
  readonly contextLength: number;
  readonly slots: number;
}

/** Whether the stored models that a start loads fit in memory with their contexts. */
export async function memoryCheck(
  config: Pick<Config, "models" | "engine" | "data_dir">,
  stored: readonly LocalModel[],
): Promise<Check> {
  const { gpus, gpuLayers } = await chooseInstalledBuild(config.engine, config.data_dir);
  // Apple's graphics share the memory of the processor.
  const hasCard = gpus[0] !== false && gpus[0] !== "metal" && gpuLayers !== 0;
  const sizes = await Promise.all(plannedOf(config, stored).map(bytesOf));
  const neededBytes = sizes.reduce((sum, bytes) => sum + bytes, 0);
  return judgeMemory(neededBytes, memoryBytes(), hasCard);
}

/**
 * `neededBytes`: size of models and contexts; `availableBytes`: memory that this process may use; `hasCard`: part of the models
 * may be in the memory of a graphics card.
 */
export function judgeMemory(neededBytes: number, availableBytes: number, hasCard = false): Check {
  const detail = `${byteText(availableBytes)} of memory; models and contexts take ${byteText(neededBytes)}`;
  const fix = "reduce context_length or slots of the models, use smaller models, or add memory";
  if (neededBytes > availableBytes && hasCard) return warn("memory", `${detail}, some of it on the card`, fix);
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
