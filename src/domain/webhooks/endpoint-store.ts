import type { EventType } from "../events/event.js";

/** A receiver of events, as it is kept. */
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
  /** Deliveries to it that may be under way at once, 1 to 64. */
  readonly maxInFlight: number;
  /** The newest first. It stays; those after it are on their way out. 1 to 3. */
  readonly secrets: readonly EndpointSecret[];
  /** Raised by one with every change: `replace` refuses what was not made of the newest. */
  readonly version: number;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** Who disabled it: a person, or the service because nothing arrived for days (WH-38). */
export type DisabledReason = "by_hand" | "failing";

export interface EndpointSecret {
  /** Encrypted for the endpoint's id (USE-16). */
  readonly sealed: string;
  /** Its last four characters. */
  readonly hint: string;
  /** Store time after which it does not sign any more; null for the newest. */
  readonly expiresAtMs: number | null;
}

/** How deliveries to an endpoint went, counted with each attempt's end in the same step. */
export interface EndpointHealth {
  readonly lastSuccessAtMs: number | null;
  readonly lastFailureAtMs: number | null;
  /** The first failure after the last success; null: the last attempt succeeded, or there was none. */
  readonly failingSinceMs: number | null;
  /** Failed attempts since the last success. */
  readonly failuresInRow: number;
  /** Deliveries that failed for good since the last success. */
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
 * Where endpoints are kept: with the ledger, so that a settlement writes deliveries for exactly those that are enabled
 * at that moment (WH-14). Rejects with `storage_unavailable`.
 */
export interface EndpointStore {
  /** False: the account has `max` endpoints already. Rejects with ServiceError `conflict` when the id is taken. */
  insert(endpoint: EndpointRecord, max: number): Promise<boolean>;
  /**
   * Replaces the one with the same id and account, if its version is the one before. After `enabled` to `disabled` no
   * delivery to it is claimed any more (WH-30); the other way its health begins anew.
   */
  replace(endpoint: EndpointRecord): Promise<"replaced" | "changed" | "unknown">;
  find(account: string, id: string): Promise<KeptEndpoint | null>;
  /** The oldest first. */
  list(account: string): Promise<readonly KeptEndpoint[]>;
  /** False: there is none. No delivery to it is claimed any more (WH-30). */
  remove(account: string, id: string): Promise<boolean>;
  /** False only when no account with this name has an endpoint for certain: no event needs to be drafted. At once. */
  mayHaveAny(account: string): boolean;
}
