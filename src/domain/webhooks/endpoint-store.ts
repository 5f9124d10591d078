import type { EventType } from "../events/event.js";

/** A stored endpoint. */
export interface EndpointRecord {
  /** `we_` and 24 characters. */
  readonly id: string;
  readonly account: string;
  readonly url: string;
  readonly description: string;
  /** Not empty, no duplicates. */
  readonly events: readonly EventType[];
  readonly status: "enabled" | "disabled";
  /** Null while it is enabled. */
  readonly disabledReason: DisabledReason | null;
  /** Maximum concurrent deliveries, 1 to 64. */
  readonly maxInFlight: number;
  /** Newest first; the others expire. 1 to 3. */
  readonly secrets: readonly EndpointSecret[];
  /** Incremented by every change; `replace` rejects a change of an older version. */
  readonly version: number;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** Disabled by a user, or by the service because nothing was delivered for days (WH-38). */
export type DisabledReason = "by_hand" | "failing";

export interface EndpointSecret {
  /** Encrypted for the endpoint's id (USE-16). */
  readonly sealed: string;
  /** Its last four characters. */
  readonly hint: string;
  /** Store time of its expiry; null for the newest. */
  readonly expiresAtMs: number | null;
}

/** Delivery statistics of an endpoint, updated in the same step as each attempt. */
export interface EndpointHealth {
  readonly lastSuccessAtMs: number | null;
  readonly lastFailureAtMs: number | null;
  /** Time of the first failure after the last success; null without one. */
  readonly failingSinceMs: number | null;
  /** Consecutive failures. */
  readonly failuresInRow: number;
  /** Permanent failures since the last success. */
  readonly permanentlyFailed: number;
}

export const freshHealth: EndpointHealth = Object.freeze({
  lastSuccessAtMs: null,
  lastFailureAtMs: null,
  failingSinceMs: null,
  failuresInRow: 0,
  permanentlyFailed: 0,
});

export interface KeptEndpoint {
  readonly record: EndpointRecord;
  readonly health: EndpointHealth;
}

/**
 * Port of the endpoint store, in the same store as the ledger, so that a settlement creates deliveries for exactly the
 * enabled endpoints (WH-14). Rejects with `storage_unavailable`.
 */
export interface EndpointStore {
  /** False if the account has `max` endpoints. Rejects with ServiceError `conflict` for a taken id. */
  insert(endpoint: EndpointRecord, max: number): Promise<boolean>;
  /**
   * Replaces the endpoint if its version is the previous one. Disabling stops new claims (WH-30); enabling resets its
   * health.
   */
  replace(endpoint: EndpointRecord): Promise<"replaced" | "changed" | "unknown">;
  find(account: string, id: string): Promise<KeptEndpoint | null>;
  /** The oldest first. */
  list(account: string): Promise<readonly KeptEndpoint[]>;
  /** False for an unknown endpoint. Stops new claims (WH-30). */
  remove(account: string, id: string): Promise<boolean>;
  /** False only if the account certainly has no endpoint, so that no event needs to be drafted. Synchronous. */
  mayHaveAny(account: string): boolean;
}
