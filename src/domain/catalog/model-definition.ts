import type { Engine } from "../engine/engine.js";
import type { PriceList } from "./prices.js";

export type Capability = "chat" | "completions" | "embeddings";

/** One way to run a model, as configured. */
export interface DeploymentDefinition {
  readonly engine: Engine;
  /** Tokens of prompt and answer together. */
  readonly contextLength: number;
  /** Requests that run at once. */
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
  /** Null: whatever the engine reports. */
  readonly capabilities: readonly Capability[] | null;
  readonly prices: PriceList;
  /** At least one. */
  readonly deployments: readonly DeploymentDefinition[];
}
