import type { UpstreamDefinition } from "../engine/upstream.js";
import type { StoredUpstream } from "./upstream-store.js";

/** An upstream whose models are offered without entries of their own in the configuration. */
export interface UpstreamSource {
  readonly definition: UpstreamDefinition;
  /** Names of its models. Empty: all models that the upstream lists, if its definition has an interval for listing them. */
  readonly models: readonly string[];
  /** `weight`, `priority` and `slots` apply to each deployment of the upstream. */
  readonly weight: number;
  readonly priority: number;
  readonly slots: number;
}

/** The upstreams of this process. */
export interface UpstreamsInUse {
  /** Upstreams of the configuration, which take precedence over stored upstreams of the same name. */
  readonly configured: readonly UpstreamSource[];
  /** Stored upstreams as last read from the store, sorted by name. */
  readonly stored: readonly StoredUpstream[];
  /** Null: there is none of this name, or its secrets cannot be decrypted. */
  definitionOf(name: string): UpstreamDefinition | null;
  /** Message for the operator why its models cannot be listed or why it cannot be used; null if there is no problem. */
  problemOf(name: string): string | null;
  /**
   * Reads the upstreams from the store and applies them. Resolves when the models of new upstreams are listed and loaded,
   * but after at most 2 s.
   */
  refresh(): Promise<void>;
}
