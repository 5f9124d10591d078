import type { UpstreamDefinition } from "../engine/upstream.js";
import type { StoredUpstream } from "./upstream-store.js";

/** An upstream whose models are offered without entries of their own in the configuration. */
export interface UpstreamSource {
  readonly definition: UpstreamDefinition;
  /** Names of its models. Empty: those that it lists, if its definition has an interval. */
  readonly models: readonly string[];
  /** Of its deployments, as `priority` and `slots`. */
  readonly weight: number;
  readonly priority: number;
  readonly slots: number;
}

/** The upstreams of this process. */
export interface UpstreamsInUse {
  /** Those of the configuration, which take precedence over stored ones of the same name. */
  readonly configured: readonly UpstreamSource[];
  /** The stored ones as last read, by name. */
  readonly stored: readonly StoredUpstream[];
  /** Null: there is none of this name, or its secrets cannot be decrypted. */
  definitionOf(name: string): UpstreamDefinition | null;
  /** Why its models cannot be listed, or why it cannot be used, for people; null: nothing is wrong. */
  problemOf(name: string): string | null;
  /** Uses what the store has now. Resolves when the models of new ones are listed and loaded, at most 2 s later. */
  refresh(): Promise<void>;
}
