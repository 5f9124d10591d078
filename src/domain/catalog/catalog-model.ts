import { create } from "@bufbuild/protobuf";
import { type Model, ModelSchema } from "../../../gen/unified/catalog/v1/model_pb.js";
import type { ServiceLimits } from "../../contract/limits.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { rememberLast } from "../../lib/json-string.js";
import { errorOfEnd } from "../call/call-context.js";
import type { UsageTotal } from "../call/live-requests.js";
import type { Clock, Logger } from "../call/ports.js";
import { ServiceError } from "../call/service-error.js";
import { type Capabilities, type Engine, EngineError, type LoadedModel, type LoadProgress } from "../engine/engine.js";
import { ModelQueue } from "../engine/model-queue.js";

/** Operations of models, in the order in which they are listed. */
export const modelCapabilities = ["chat", "completions", "embeddings", "rerank"] as const;

export type Capability = (typeof modelCapabilities)[number];

/** One way to run a model, as configured. */
export interface DeploymentDefinition {
  readonly engine: Engine;
  /** Tokens of prompt and answer together. */
  readonly contextLength: number;
  /** Concurrent requests. */
  readonly slots: number;
  /** Requests that may wait for a slot. */
  readonly queueMax: number;
  /** Share of the model's requests, relative to its other deployments. Above 0. */
  readonly weight: number;
  /** The engine's own options. */
  readonly options: unknown;
}

/** A catalog entry, as configured. */
export interface ModelDefinition {
  readonly id: string;
  readonly ownedBy: string;
  /** Null: as reported by the engine. */
  readonly capabilities: readonly Capability[] | null;
  readonly prices: PriceList;
  /** At least one. */
  readonly deployments: readonly DeploymentDefinition[];
}

/** Nano-dollars per token: 1,000 are a dollar for a million tokens. Integers, 0 or more (USE-8). */
export interface Prices {
  readonly input: number;
  /** Price of cached prompt tokens. */
  readonly cachedInput: number;
  readonly output: number;
}

/** Prices of a model from a point in time. */
export interface PricesFrom extends Prices {
  /** Wall-clock milliseconds; 0: from the beginning. */
  readonly fromMs: number;
}

/** Prices in ascending order of their start; an empty list means free of charge. */
export type PriceList = readonly PricesFrom[];

const free: Prices = Object.freeze({ input: 0, cachedInput: 0, output: 0 });

/** Prices at a point in time. */
export function pricesAt(list: PriceList, atMs: number): Prices {
  return list.findLast(({ fromMs }) => fromMs <= atMs) ?? free;
}

/**
 * Cost of a request in nano-dollars, fixed when it is settled. A safe integer: prices are bounded by the configuration so
 * that the largest context stays below 2^53.
 */
export function costNano(
  prices: Prices,
  usage: Pick<UsageTotal, "promptTokens" | "cachedTokens" | "completionTokens">,
): number {
  const cached = Math.min(usage.cachedTokens, usage.promptTokens);
  return (
    (usage.promptTokens - cached) * prices.input + cached * prices.cachedInput + usage.completionTokens * prices.output
  );
}

/** A catalog entry with its deployments. */
export class CatalogModel {
  readonly id: string;
  readonly ownedBy: string;
  readonly createdAtMs: number;
  readonly deployments: readonly Deployment[];
  /** Prices of future settlements; a reload replaces them (USE-8). */
  prices: PriceList;
  readonly #configured: readonly Capability[] | null;
  readonly #offeredBy = rememberLast(offeredBy);

  constructor(definition: ModelDefinition, createdAtMs: number, deployments: readonly Deployment[]) {
    this.id = definition.id;
    this.ownedBy = definition.ownedBy;
    this.createdAtMs = createdAtMs;
    this.deployments = deployments;
    this.prices = definition.prices;
    this.#configured = definition.capabilities;
  }

  /** Capabilities of the engine; null while no deployment is loaded. */
  get caps(): Capabilities | null {
    return this.loaded?.caps ?? null;
  }

  /** The first loaded deployment's model; null if none is loaded. */
  get loaded(): LoadedModel | null {
    return this.deployments.find((deployment) => deployment.model !== null)?.model ?? null;
  }

  /** Whether every deployment failed to load: the model is not listed and its requests fail with the cause. */
  get hasFailed(): boolean {
    return this.deployments.every((deployment) => deployment.failure !== null);
  }

  /** Configured capabilities, otherwise what at least one of its deployments can do. */
  get capabilities(): readonly Capability[] {
    if (this.#configured !== null) return this.#configured;
    const [first, ...others] = this.deployedCaps();
    if (first === undefined) return [];
    if (others.length === 0) return this.#offeredBy(first);
    return [...new Set([first, ...others].flatMap(offeredBy))];
  }

  /** Capabilities of the loaded deployments, in their order; empty while none is loaded. */
  deployedCaps(): readonly Capabilities[] {
    return this.deployments.flatMap(({ model }) => model?.caps ?? []);
  }

  /** Deployments to try, least loaded first: of the loaded ones those that `can` run the request, otherwise all. */
  byLoad(can: (caps: Capabilities) => boolean): readonly Deployment[] {
    if (this.deployments.length === 1) return this.deployments;
    const able = this.deployments.filter(({ model }) => model !== null && can(model.caps));
    return (able.length > 0 ? able : [...this.deployments]).sort((a, b) => a.load - b.load);
  }

  toMessage(): Model {
    const { caps } = this;
    return create(ModelSchema, {
      id: this.id,
      created: BigInt(Math.floor(this.createdAtMs / 1000)),
      ownedBy: this.ownedBy,
      contextLength: caps?.contextLength ?? this.deployments[0]?.contextLength ?? 0,
      capabilities: [...this.capabilities],
      ...(caps?.embeddings && caps.embeddingDims !== undefined ? { dimensions: caps.embeddingDims } : {}),
      ...(caps?.chat ? { toolCalling: caps.tools } : {}),
    });
  }
}

function offeredBy(caps: Capabilities): readonly Capability[] {
  const offered: Capability[] = [];
  if (caps.chat) offered.push("chat");
  if (caps.completion) offered.push("completions");
  if (caps.embeddings) offered.push("embeddings");
  if (caps.rerank) offered.push("rerank");
  return offered;
}

export interface DeploymentDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly limits: Pick<ServiceLimits, "queueWaitMs">;
}

/** Grace for running requests of a removed deployment. */
const unloadGraceMs = 120_000;
/** Retry-After when a load did not finish in time. */
const loadingRetryMs = 10_000;

/** A model loaded in an engine, with the queue in front of it. */
export class Deployment {
  /** `<model>/<position>`, for logs and headers. */
  readonly id: string;
  readonly queue: ModelQueue;
  readonly contextLength: number;
  /** The loaded model; null while it loads or when that failed. */
  model: LoadedModel | null = null;
  /** Load progress; null once finished. */
  progress: LoadProgress | null = { stage: "loading", share: 0 };
  /** Load error; null while loading and when loaded. */
  failure: EngineError | null = null;
  /** Resolves when loading ends; never rejects. */
  readonly loadEnded: Promise<void>;
  readonly #deps: DeploymentDeps;
  readonly #weight: number;
  readonly #abortLoad = new AbortController();

  constructor(deps: DeploymentDeps, modelId: string, position: number, definition: DeploymentDefinition) {
    const { contextLength, slots, queueMax: waitingMax, weight } = definition;
    this.id = `${modelId}/${position}`;
    this.queue = new ModelQueue(deps.clock, { slots, waitingMax, limits: deps.limits });
    this.contextLength = contextLength;
    this.#deps = deps;
    this.#weight = weight;
    this.loadEnded = this.#load(modelId, definition);
  }

  /** Running and waiting requests per slot and weight. */
  get load(): number {
    return this.queue.load / this.#weight;
  }

  /** Lets running requests finish, then frees the engine's memory. */
  async retire(): Promise<void> {
    this.#abortLoad.abort(new EngineError("aborted", "the model was removed from the catalog"));
    await this.loadEnded;
    await this.model?.unload(unloadGraceMs);
  }

  async #load(id: string, { engine, contextLength, slots, options }: DeploymentDefinition): Promise<void> {
    const onProgress = (progress: LoadProgress): void => {
      if (this.progress !== null) this.progress = progress;
    };
    try {
      this.model = await engine.load({ id, contextLength, slots, options }, onProgress, this.#abortLoad.signal);
    } catch (cause) {
      const isKnown = cause instanceof EngineError;
      this.failure = isKnown ? cause : new EngineError("internal", "the engine failed to load the model", { cause });
      this.#deps.log.error({ deployment: this.id, err: cause }, "model failed to load");
    }
    this.progress = null;
  }

  /**
   * Resolves with the model once loaded (RETRY-4). Rejects with `model_loading` after `queueWaitMs`, with
   * `model_not_loaded` when loading failed, and with the call's own error when `stop` aborts.
   */
  async onceLoaded(stop: AbortFlag): Promise<LoadedModel> {
    const { clock, limits } = this.#deps;
    await new Promise<void>((resolve, reject) => {
      if (stop.aborted) return reject(errorOfEnd(stop.reason));
      const onAbort = (): void => {
        cancelTimer();
        reject(errorOfEnd(stop.reason));
      };
      const cancelTimer = clock.after(limits.queueWaitMs, () => {
        stop.removeEventListener("abort", onAbort);
        reject(new ServiceError("model_loading", stillLoadingText(this.progress), { retryAfterMs: loadingRetryMs }));
      });
      stop.addEventListener("abort", onAbort);
      void this.loadEnded.then(() => {
        cancelTimer();
        stop.removeEventListener("abort", onAbort);
        resolve();
      });
    });
    if (this.model !== null) return this.model;
    throw new ServiceError("model_not_loaded", notLoadedText, { cause: this.failure, retryAfterMs: loadingRetryMs });
  }
}

/** Names the three ways to get a model; the log has the cause. */
const notLoadedText =
  "The model could not be fetched or loaded; the service's log says why, and the list of models shows what can be used. " +
  "Its operator can fetch it from a mirror " +
  "(uis models pull SOURCE --id ID), import a file (uis models import FILE --id ID), or configure another engine.";

function stillLoadingText(progress: LoadProgress | null): string {
  if (progress === null || progress.share <= 0) return "The model is still being loaded.";
  const percent = Math.floor(progress.share * 100);
  return `The model is still being ${progress.stage === "fetching" ? "fetched" : "loaded"}: ${percent} % are done.`;
}
