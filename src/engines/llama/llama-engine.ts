import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import type { Clock, Logger } from "../../domain/call/ports.js";
import type {
  BoundedCapabilities,
  Engine,
  EngineKind,
  LoadedModel,
  LoadProgress,
  ModelSpec,
  RequestDefaults,
} from "../../domain/engine/engine.js";
import { type BuildChoice, firstBuild } from "./builds/builds.js";
import { createChildStarter, type StartChild } from "./child-process.js";
import { LlamaModel } from "./llama-model.js";
import type { LoadedFacts, Placement } from "./protocol/protocol.js";
import { Supervisor } from "./supervisor.js";

export interface LlamaSettings {
  /** Maximum time from the crash or hang of a child until each of its calls has ended, or continues on the next child. */
  readonly stallMs: number;
  /** Crashes of a model's child in five minutes that its circuit breaker tolerates; one more opens it. */
  readonly circuitCrashes: number;
  /** Threads of each child; null: one less than there are cores. */
  readonly threads: number | null;
  /** The builds of the binding to try, chosen at start. */
  readonly build: BuildChoice;
}

/** Share of the stall limit for which a call may wait; the remaining time is for returning its error. */
const waitingShare = 0.9;

export interface LlamaEngineDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly files: ModelFiles;
  readonly settings: LlamaSettings;
  /** The server's environment variables; children get only those that they need. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Program of the children, instead of the engine's own. */
  readonly childEntry?: string;
}

/**
 * The embedded engine: llama.cpp in one supervised child process per model, because a failed assertion in native code
 * ends its process. llama.cpp keeps at most 256 sequences in a context.
 */
export const llamaEngine = {
  name: "llama",
  settings: ["source", "sha256"],
  defaults: { slots: 4, slotsMax: 256 },
  create(deps: LlamaEngineDeps): Engine {
    const startChild = createChildStarter(deps);
    const queue = firstBuild(deps.settings.build) === "cpu" ? null : new LoadQueue();
    return {
      load: (spec, onProgress, signal) => load({ ...deps, startChild, queue }, spec, onProgress, signal),
    };
  },
} as const satisfies EngineKind<LlamaEngineDeps>;

/**
 * Loads models one after another, because each chooses its layers by the free memory of the card: two models that load at
 * the same time would count the same memory.
 */
class LoadQueue {
  #last: Promise<unknown> = Promise.resolve();

  /** Calls `load` when the earlier loads have ended, or after an abort, of which `load` then rejects by itself. */
  async run<T>(load: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const earlier = this.#last;
    const mayBegin = new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener("abort", () => resolve(), { once: true });
      void earlier.then(() => resolve());
    });
    const loading = mayBegin.then(load);
    this.#last = Promise.allSettled([earlier, loading]);
    return await loading;
  }
}

interface LoadParts extends LlamaEngineDeps {
  readonly startChild: StartChild;
  /** Queue of loads; null: models may load at the same time. */
  readonly queue: LoadQueue | null;
}

async function load(
  { clock, log, files, settings, startChild, queue }: LoadParts,
  { id, contextLength, slots, options }: ModelSpec,
  onProgress: (progress: LoadProgress) => void,
  signal: AbortSignal,
): Promise<LoadedModel> {
  const file = await files.locate(options, onProgress, signal);
  const { circuitCrashes, build } = settings;
  const stallMs = Math.round(waitingShare * settings.stallMs);
  const supervisor = new Supervisor(
    { clock, log, startChild, stallMs, circuitCrashes },
    {
      id,
      path: file.path,
      kind: file.kind,
      contextLength: Math.min(contextLength, file.trainedContext),
      slots,
      threads: settings.threads ?? defaultThreads(),
      build,
    },
  );
  const start = () => supervisor.load((share) => onProgress({ stage: "loading", share }), signal);
  const facts = await (queue === null ? start() : queue.run(start, signal));
  logPlacement(log, id, facts.placement);
  const { fingerprint, longestTokenBytes } = facts;
  const caps = capabilities(file, facts);
  return new LlamaModel(
    { clock, supervisor, outputMaxMs: stallMs },
    {
      id,
      caps,
      fingerprint,
      slots,
      longestTokenBytes,
      ...(file.defaults === undefined ? {} : { defaults: file.defaults }),
    },
  );
}

function logPlacement(log: Logger, model: string, { gpu, gpuLayers, layers, unusable }: Placement): void {
  if (unusable.length > 0) {
    const fields = { model, builds: unusable };
    log.warn(fields, "a build for graphics cards does not load on this machine; uis doctor names the reason");
  }
  if (gpu !== null) log.info({ model, gpu, gpu_layers: gpuLayers, layers }, "the model runs on the graphics card");
}

/** A verified GGUF file on this machine. */
export interface ModelFile {
  /** Absolute path. */
  readonly path: string;
  readonly kind: "chat" | "embedding";
  /** Length of the context that the model was trained with, in tokens. */
  readonly trainedContext: number;
  /** Whether its vectors may be cut to fewer dimensions; default false. */
  readonly shortenableEmbeddings?: boolean;
  /** Recommended values for fields that a request leaves unset; default: none. */
  readonly defaults?: RequestDefaults;
}

/** Port to the model store. */
export interface ModelFiles {
  /**
   * Returns the file that a deployment's options name. Downloads and verifies it first if it is not on this machine. Rejects
   * with EngineError if there is no such file, and with `aborted`.
   */
  locate(options: unknown, onProgress: (progress: LoadProgress) => void, signal: AbortSignal): Promise<ModelFile>;
}

/** Maximum alternatives per position that the sampler can report. */
const logprobsMax = 20;

function capabilities({ kind, shortenableEmbeddings = false }: ModelFile, facts: LoadedFacts): BoundedCapabilities {
  const { contextLength, embeddingDims, tools } = facts;
  const isChat = kind === "chat";
  return {
    chat: isChat,
    completion: isChat,
    embeddings: !isChat,
    rerank: false,
    contextLength,
    maxOutput: isChat ? contextLength : 0,
    ...(embeddingDims === null ? {} : { embeddingDims, shortenableEmbeddings, maxEmbedTokens: contextLength }),
    tools: isChat ? tools : "none",
    toolChoice: isChat,
    // A model that was not trained with tools repeats its call to the limit when it may call again.
    parallelTools: tools === "auto",
    jsonObject: isChat,
    jsonSchema: isChat ? "subset" : "none",
    grammar: isChat,
    ...(isChat ? { constraints: ["choice", "regex", "grammar", "min_tokens", "ignore_eos"] } : {}),
    logprobs: isChat ? logprobsMax : 0,
    echoLogprobs: isChat,
    logitBias: isChat,
    penalties: isChat,
    nativeN: false,
    // Some clients send inputs as ids of another model's vocabulary: rejecting them is better than embedding noise.
    tokenInput: isChat,
    vision: false,
    audio: false,
  };
}

const quotaFile = "/sys/fs/cgroup/cpu.max";

/**
 * Default threads of the engine: one less than there are cores, at least one. Threads spin while they wait for each other,
 * so other work on the core of one thread would stall all of them.
 */
export function defaultThreads(): number {
  return Math.max(1, Math.min(availableParallelism(), coresOfQuota(readQuota())) - 1);
}

/** Cores that a `cpu.max` of control groups grants (`<microseconds|max> <period>`), rounded up; without one, no limit. */
export function coresOfQuota(text: string): number {
  const [quota, period] = text.trim().split(" ").map(Number);
  const cores = Math.ceil((quota ?? Number.NaN) / (period ?? Number.NaN));
  return cores >= 1 ? cores : Number.POSITIVE_INFINITY;
}

/** Node 20 ignores the quota of a container. */
function readQuota(): string {
  try {
    return readFileSync(quotaFile, "utf8");
  } catch {
    // No such file: no control groups of version 2, or the root group.
    return "max";
  }
}
