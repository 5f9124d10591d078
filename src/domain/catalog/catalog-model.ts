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

/** What changes without loading a model again. */
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
  /** Ids of the models to use instead, in this order, when no deployment can answer. Their own ones are not followed. */
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
  /** The slots of its loaded deployments. */
  readonly room: WaitingRoom<Deployment>;
  readonly retryBudget: RetryBudget;
  readonly affinity: Affinity;
  /** Whether a deployment is one at an upstream server. */
  readonly hasUpstream: boolean;
  readonly fallbacks: readonly string[];
  /** For people: why another model is used in place of this one, which cannot be downloaded; null in general. */
  replacedReason: string | null = null;
  /** Prices of future settlements; a reload replaces them (USE-8). */
  prices: PriceList;
  readonly #configured: readonly Capability[] | null;
  #configuredDefaults: RequestDefaults | null;
  #defaults: RequestDefaults | null;
  readonly #offeredBy = rememberLast(offeredBy);
  #message: Model | null = null;
  /** Of each deployment, at the time of the message. */
  #messageCaps: readonly DeploymentCaps[] = [];

  /** Begins to load its deployments. */
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

  /** Of future requests: what is configured, and for the rest what the engine recommends for the model's file. */
  get defaults(): RequestDefaults | null {
    return this.#defaults;
  }

  /** Applies settings that a reload has changed. */
  revise({ prices, defaults }: LiveSettings): void {
    this.prices = prices;
    this.#configuredDefaults = defaults;
    this.#defaults = joinedDefaults(defaults, this.loaded?.defaults);
  }

  /** Capabilities of the first loaded deployment, or one that was unloaded while idle; null while there is none. */
  get caps(): Capabilities | null {
    return this.deployedCaps()[0] ?? null;
  }

  /** Whether it is unloaded because nobody used it, and the next request loads it. */
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

  /** Configured capabilities, otherwise what at least one of its deployments can do. */
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

  /** Resolves once a deployment is loaded. Rejects like Deployment.onceLoaded, of the first deployment. */
  async onceLoaded(stop: AbortFlag): Promise<void> {
    const loading = this.deployments.map((deployment) => deployment.onceLoaded(stop));
    invariant(loading[0] !== undefined, "a catalog model has a deployment");
    // Without any loaded one, awaiting the first throws its error.
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

  /** The same message until what the model can do changes, so that lists can be compared. It is shared: never change it. */
  toMessage(): Model {
    if (this.#message === null || !this.#hasMessageCaps()) {
      this.#messageCaps = this.deployments.map(({ model, caps }) => ({ loaded: model?.caps ?? null, caps }));
      this.#message = this.#createMessage();
    }
    return this.#message;
  }

  /** Allocates nothing: lists ask thousands of models. */
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

/** For each field the first value that is set. */
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
