import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import type { Clock, Logger } from "../../domain/call/ports.js";
import type {
  Capabilities,
  Engine,
  EngineKind,
  LoadedModel,
  LoadProgress,
  ModelSpec,
} from "../../domain/engine/engine.js";
import { createChildStarter, type StartChild } from "./child-process.js";
import { LlamaModel } from "./llama-model.js";
import type { LoadedFacts } from "./protocol/protocol.js";
import { Supervisor } from "./supervisor.js";

export interface LlamaSettings {
  /** A call whose child died or hangs has ended, or has output from the next child, within this time. */
  readonly stallMs: number;
  /** Crashes of a model's child in five minutes after which one more opens its circuit. */
  readonly circuitCrashes: number;
  /** Threads of each child; null: one less than there are cores. */
  readonly threads: number | null;
  /** Folder whose `node_modules` holds another build of the binding; null: the one that comes with the service. */
  readonly moduleDir: string | null;
}

/** Share of the stall limit that waiting may take; the rest is for the error to reach the caller within the limit. */
const waitingShare = 0.9;

export interface LlamaEngineDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly files: ModelFiles;
  readonly settings: LlamaSettings;
  /** The server's variables; children get only those that they need. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Program of the children, instead of the engine's own. */
  readonly childEntry?: string;
}

/** The embedded engine. llama.cpp keeps at most 256 sequences in a context. */
export const llamaEngine = {
  name: "llama",
  settings: ["source", "sha256"],
  defaults: { slots: 4, slotsMax: 256 },
  create: createLlamaEngine,
} as const satisfies EngineKind<LlamaEngineDeps>;

/**
 * The embedded engine: llama.cpp in one supervised child process per model, because a failed assertion in native code
 * ends the process that it happens in.
 */
export function createLlamaEngine(deps: LlamaEngineDeps): Engine {
  const { log, environment, childEntry } = deps;
  const startChild = createChildStarter({
    log,
    environment,
    ...(childEntry === undefined ? {} : { entry: childEntry }),
  });
  return {
    load: (spec, onProgress, signal) => load(deps, startChild, spec, onProgress, signal),
  };
}

/**
 * The build of the binding to use. A binding that the operator installed beside ours is there for its GPU support; for
 * Apple silicon there is none without Metal.
 */
export function gpuSupport(
  { platform, arch }: Pick<NodeJS.Process, "platform" | "arch">,
  moduleDir: string | null,
): "auto" | false {
  return moduleDir !== null || (platform === "darwin" && arch === "arm64") ? "auto" : false;
}

async function load(
  { clock, log, files, settings }: LlamaEngineDeps,
  startChild: StartChild,
  spec: ModelSpec,
  onProgress: (progress: LoadProgress) => void,
  signal: AbortSignal,
): Promise<LoadedModel> {
  const file = await files.locate(spec.options, onProgress, signal);
  const { circuitCrashes, threads, moduleDir } = settings;
  const stallMs = Math.round(waitingShare * settings.stallMs);
  const supervisor = new Supervisor(
    { clock, log, startChild, stallMs, circuitCrashes },
    {
      id: spec.id,
      path: file.path,
      kind: file.kind,
      contextLength: Math.min(spec.contextLength, file.trainedContext),
      slots: spec.slots,
      threads: threads ?? defaultThreads(),
      moduleDir,
      gpu: gpuSupport(process, moduleDir),
    },
  );
  const facts = await supervisor.load((share) => onProgress({ stage: "loading", share }), signal);
  return new LlamaModel(
    { clock, supervisor, patienceMs: stallMs },
    {
      id: spec.id,
      caps: llamaCapabilities(file.kind, facts, file.shortenableEmbeddings ?? false),
      fingerprint: facts.fingerprint,
      slots: spec.slots,
      longestTokenBytes: facts.longestTokenBytes,
      answerTokens: file.answerTokens ?? null,
    },
  );
}

/** A verified GGUF file on this machine. */
export interface ModelFile {
  /** Absolute. */
  readonly path: string;
  readonly kind: "chat" | "embedding";
  /** Tokens that the model was trained for. */
  readonly trainedContext: number;
  /** Whether its vectors keep their meaning when they are cut to fewer dimensions; default false. */
  readonly shortenableEmbeddings?: boolean;
  /** Tokens of an answer when the request sets no limit; default: as many as fit into the context. */
  readonly answerTokens?: number;
}

/** Port to the model store. */
export interface ModelFiles {
  /**
   * The file that a deployment's options name, fetched and verified first when it is not here. Rejects with EngineError
   * when there is none, and with `aborted` when the signal aborts.
   */
  locate(options: unknown, onProgress: (progress: LoadProgress) => void, signal: AbortSignal): Promise<ModelFile>;
}

/** Alternatives that the sampler can report for a position. */
const logprobsMax = 20;

/** What a loaded model can do. `shortenable`: its vectors keep their meaning when they are cut. */
export function llamaCapabilities(
  kind: "chat" | "embedding",
  { contextLength, embeddingDims, tools }: LoadedFacts,
  shortenable: boolean,
): Capabilities {
  const isChat = kind === "chat";
  return {
    chat: isChat,
    completion: isChat,
    embeddings: !isChat,
    contextLength,
    maxOutput: isChat ? contextLength : 0,
    ...(embeddingDims === null
      ? {}
      : { embeddingDims, shortenableEmbeddings: shortenable, maxEmbedTokens: contextLength }),
    tools: isChat ? tools : "none",
    parallelTools: true,
    jsonSchema: isChat ? "subset" : "none",
    grammar: isChat,
    logprobs: isChat ? logprobsMax : 0,
    echoLogprobs: false,
    logitBias: isChat,
    penalties: isChat,
    nativeN: false,
    // Some clients send texts to be embedded as ids of another model's vocabulary: better refused than embedded as noise.
    tokenInput: isChat,
    vision: false,
  };
}

const quotaFile = "/sys/fs/cgroup/cpu.max";

/**
 * Threads of the engine when none are configured: one less than there are cores, and at least one. Its threads wait for
 * each other without sleeping, so a single core that others need stalls all of them.
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

/** Node 20 does not look at the quota of a container. */
function readQuota(): string {
  try {
    return readFileSync(quotaFile, "utf8");
  } catch {
    // No such file: no control groups of version 2, or the root group.
    return "max";
  }
}
