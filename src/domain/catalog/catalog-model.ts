import { create } from "@bufbuild/protobuf";
import { type Model, ModelSchema } from "../../../gen/unified/catalog/v1/model_pb.js";
import { rememberLast } from "../../lib/json-string.js";
import type { Capabilities, LoadedModel } from "../engine/engine.js";
import type { Deployment } from "./deployment.js";
import type { Capability, ModelDefinition, PriceList } from "./model-definition.js";

/** A catalog entry with its deployments. */
export class CatalogModel {
  readonly id: string;
  readonly ownedBy: string;
  readonly createdAtMs: number;
  readonly deployments: readonly Deployment[];
  #prices: PriceList;
  readonly #configured: readonly Capability[] | null;
  readonly #offeredBy = rememberLast(offeredBy);

  constructor(definition: ModelDefinition, createdAtMs: number, deployments: readonly Deployment[]) {
    this.id = definition.id;
    this.ownedBy = definition.ownedBy;
    this.createdAtMs = createdAtMs;
    this.deployments = deployments;
    this.#prices = definition.prices;
    this.#configured = definition.capabilities;
  }

  get prices(): PriceList {
    return this.#prices;
  }

  /** Sets the prices of future settlements (USE-8). */
  reprice(prices: PriceList): void {
    this.#prices = prices;
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

  /** Configured capabilities, otherwise those of its engine. */
  get capabilities(): readonly Capability[] {
    const { caps } = this;
    if (this.#configured !== null || caps === null) return this.#configured ?? [];
    return this.#offeredBy(caps);
  }

  /** Deployments to try, least loaded first. */
  byLoad(): readonly Deployment[] {
    if (this.deployments.length === 1) return this.deployments;
    return [...this.deployments].sort((a, b) => a.load - b.load);
  }

  toMessage(): Model {
    const { caps } = this;
    const contextLength = caps?.contextLength ?? this.deployments[0]?.contextLength ?? 0;
    return create(ModelSchema, {
      id: this.id,
      created: BigInt(Math.floor(this.createdAtMs / 1000)),
      ownedBy: this.ownedBy,
      contextLength,
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
  return offered;
}
