import { create } from "@bufbuild/protobuf";
import { type Model, ModelSchema } from "../../../gen/unified/catalog/v1/model_pb.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { rememberLast } from "../../lib/json-string.js";
import { invariant } from "../call/service-error.js";
import type { Capabilities, LoadedModel, RequestDefaults } from "../engine/engine.js";
import type { Affinity } from "../engine/upstream.js";
import { Affinity as AffinityChoice } from "../routing/affinity.js";
import { EjectionGroup } from "../routing/ejection-group.js";
import { evenlySpread } from "../routing/pick.js";
import { RetryBudget } from "../routing/retry-budget.js";
import { WaitingRoom } from "../routing/waiting-room.js";
import { Deployment, type DeploymentDefinition, type DeploymentDeps } from "./deployment.js";
import type { PriceList } from "./prices.js";

/** Operations of models, in the order in which they are listed. */
export const modelCapabilities = ["chat", "completions", "embeddings", "rerank"] as const;

export type Capability = (typeof modelCapabilities)[number];

/** Settings that can change without loading a model again. */
export type LiveSettings = Pick<ModelDefinition, "prices" | "defaults">;

/** A catalog entry, as configured. */
export interface ModelDefinition {
  readonly id: string;
  readonly ownedBy: string;
  /** Null: as reported by the engine. */
  readonly capabilities: readonly Capability[] | null;
  readonly prices: PriceList;
  /** Null: none is set. */
  readonly defaults: RequestDefaults | null;
  readonly affinity: Affinity;
  /**
   * Ids of the models to use instead, in this order, when no deployment can answer. The fallbacks of those models are not
   * used.
   */
  readonly fallbacks: readonly string[];
  /** At least one. */
  readonly deployments: readonly DeploymentDefinition[];
}

interface DeploymentCaps {
  /** Null: its model is not loaded. */
  readonly loaded: Capabilities | null;
  readonly caps: Capabilities | null;
}

/** A catalog entry with its deployments. */
export class CatalogModel {
  readonly id: string;
  readonly ownedBy: string;
  readonly createdAtMs: number;
  readonly deployments: readonly Deployment[];
  /** The slots of the loaded deployments, and the queue of requests that wait for one. */
  readonly room: WaitingRoom<Deployment>;
  readonly retryBudget: RetryBudget;
  readonly affinity: Affinity;
  /** Whether at least one deployment is at an upstream server. */
  readonly hasUpstream: boolean;
  readonly fallbacks: readonly string[];
  /** Text for status pages: why this model cannot be downloaded and which model is used instead; null for most models. */
  replacedReason: string | null = null;
  /** Prices of future settlements; a reload replaces them (USE-8). */
  prices: PriceList;
  readonly #configured: readonly Capability[] | null;
  #configuredDefaults: RequestDefaults | null;
  #defaults: RequestDefaults | null;
  readonly #offeredBy = rememberLast(offeredBy);
  #message: Model | null = null;
  /** Capabilities of each deployment when `#message` was created. */
  #messageCaps: readonly DeploymentCaps[] = [];

  /** Starts to load the model in its deployments. */
  constructor(deps: DeploymentDeps, definition: ModelDefinition, createdAtMs: number) {
    const { clock, limits } = deps;
    this.id = definition.id;
    this.ownedBy = definition.ownedBy;
    this.createdAtMs = createdAtMs;
    this.prices = definition.prices;
    this.#configuredDefaults = definition.defaults;
    this.#defaults = definition.defaults;
    this.affinity = definition.affinity;
    this.hasUpstream = definition.deployments.some(({ upstream }) => upstream !== null);
    this.fallbacks = definition.fallbacks;
    this.#configured = definition.capabilities;
    this.retryBudget = new RetryBudget(clock);
    this.room = new WaitingRoom<Deployment>(clock, {
      deployments: [],
      waitingMax: definition.deployments.reduce((sum, { queueMax }) => sum + queueMax, 0),
      limits,
      policy: {
        random: evenlySpread(deps.random),
        affinity: definition.affinity === "none" ? null : new AffinityChoice(clock),
      },
    });
    const group = new EjectionGroup(clock);
    this.deployments = definition.deployments.map(
      (deployment, position) =>
        new Deployment(deps, deployment, {
          modelId: this.id,
          position,
          group,
          granted: () => this.room.granted,
          onChange: () => this.#listUsable(),
        }),
    );
  }

  /**
   * Defaults of future requests: the configured values, and for the others those that the engine recommends for the model's
   * file.
   */
  get defaults(): RequestDefaults | null {
    return this.#defaults;
  }

  /** Applies settings that a reload has changed. */
  revise({ prices, defaults }: LiveSettings): void {
    this.prices = prices;
    this.#configuredDefaults = defaults;
    this.#defaults = joinedDefaults(defaults, this.loaded?.defaults);
  }

  /**
   * Capabilities of the first loaded deployment, otherwise of one that was unloaded while idle; null if there is neither.
   */
  get caps(): Capabilities | null {
    return this.deployedCaps()[0] ?? null;
  }

  /** Whether the model is unloaded because it was not used; the next request loads it. */
  get isUnloadedWhileIdle(): boolean {
    return this.loaded === null && this.deployments.some((deployment) => deployment.isUnloadedWhileIdle);
  }

  /** The first loaded deployment's model; null if none is loaded. */
  get loaded(): LoadedModel | null {
    return this.deployments.find((deployment) => deployment.model !== null)?.model ?? null;
  }

  /** Whether every deployment failed to load: the model is not listed and its requests fail with the cause. */
  get hasFailed(): boolean {
    return this.deployments.every((deployment) => deployment.failure !== null);
  }

  /** Configured capabilities, otherwise those that at least one deployment has. */
  get capabilities(): readonly Capability[] {
    if (this.#configured !== null) return this.#configured;
    const [first, ...others] = this.deployedCaps();
    if (first === undefined) return [];
    if (others.length === 0) return this.#offeredBy(first);
    return [...new Set([first, ...others].flatMap(offeredBy))];
  }

  /** Capabilities of the loaded deployments, in their order; without one, of the deployment that was unloaded while idle. */
  deployedCaps(): readonly Capabilities[] {
    const deployed: Capabilities[] = [];
    for (const { model } of this.deployments) if (model !== null) deployed.push(model.caps);
    return deployed.length > 0 ? deployed : this.deployments.flatMap(({ caps }) => caps ?? []);
  }

  /** Resolves once a deployment is loaded. If all fail, rejects with the error of the first deployment's `onceLoaded`. */
  async onceLoaded(stop: AbortFlag): Promise<void> {
    const loading = this.deployments.map((deployment) => deployment.onceLoaded(stop));
    invariant(loading[0] !== undefined, "a catalog model has a deployment");
    // If no deployment was loaded, awaiting the first promise throws its error.
    await Promise.any(loading).catch(() => loading[0]);
  }

  /** Sums over the deployments, for status pages. */
  sums() {
    const { busy, waiting } = this.room;
    const sums = { slots: 0, busy, waiting, producedTokens: 0, restarts: 0, memoryBytes: 0 };
    for (const { slots, model } of this.deployments) {
      const { producedTokens = 0, restarts = 0, memoryBytes = 0 } = model?.stats() ?? {};
      sums.slots += slots;
      sums.producedTokens += producedTokens;
      sums.restarts += restarts;
      sums.memoryBytes += memoryBytes;
    }
    return sums;
  }

  /**
   * The model as a protobuf message. Returns the same object until the model's capabilities change, so that lists can be
   * compared. Callers must not modify it.
   */
  toMessage(): Model {
    if (this.#message === null || !this.#hasMessageCaps()) {
      this.#messageCaps = this.deployments.map(({ model, caps }) => ({ loaded: model?.caps ?? null, caps }));
      this.#message = this.#createMessage();
    }
    return this.#message;
  }

  /** Whether `#message` has the current capabilities. Allocates nothing, because a list calls it for thousands of models. */
  #hasMessageCaps(): boolean {
    for (let i = 0; i < this.deployments.length; i++) {
      const deployment = this.deployments[i];
      const known = this.#messageCaps[i];
      const loaded = deployment?.model?.caps ?? null;
      if (known?.loaded !== loaded || known.caps !== deployment?.caps) return false;
    }
    return true;
  }

  #createMessage(): Model {
    const { caps } = this;
    return create(ModelSchema, {
      id: this.id,
      created: BigInt(Math.floor(this.createdAtMs / 1000)),
      ownedBy: this.ownedBy,
      contextLength: (caps === null ? this.deployments[0]?.contextLength : caps.contextLength) ?? 0,
      capabilities: [...this.capabilities],
      ...(caps?.embeddings && caps.embeddingDims !== undefined ? { dimensions: caps.embeddingDims } : {}),
      ...(caps?.chat ? { toolCalling: caps.tools } : {}),
    });
  }

  #listUsable(): void {
    this.#defaults = joinedDefaults(this.#configuredDefaults, this.loaded?.defaults);
    this.room.deployments = this.deployments.filter(({ isUsable }) => isUsable);
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

/** For each field the configured value, otherwise the recommended one. */
function joinedDefaults(
  configured: RequestDefaults | null,
  recommended: RequestDefaults | undefined,
): RequestDefaults | null {
  if (configured === null || recommended === undefined) return configured ?? recommended ?? null;
  return {
    temperature: configured.temperature ?? recommended.temperature,
    topP: configured.topP ?? recommended.topP,
    minP: configured.minP ?? recommended.minP,
    repetitionPenalty: configured.repetitionPenalty ?? recommended.repetitionPenalty,
    maxTokens: configured.maxTokens ?? recommended.maxTokens,
    stop: configured.stop.length > 0 ? configured.stop : recommended.stop,
    system: configured.system ?? recommended.system,
  };
}
