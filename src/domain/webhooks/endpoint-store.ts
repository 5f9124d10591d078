import type { EventType } from "./event-draft.js";

/** A receiver of events. */
export interface EndpointRecord {
  /** `we_` and 24 characters. */
  readonly id: string;
  readonly account: string;
  readonly url: string;
  readonly description: string;
  /** Not empty, no duplicates. */
  readonly events: readonly EventType[];
  readonly status: "enabled" | "disabled";
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/**
 * Where endpoints are kept: with the ledger, so that a settlement writes deliveries for exactly those that are enabled
 * at that moment (WH-14). Rejects with `storage_unavailable`.
 */
export interface EndpointStore {
  /** Rejects with ServiceError `conflict` when the id is taken. */
  insert(endpoint: EndpointRecord): Promise<void>;
  /** Replaces the one with the same id and account; false: there is none. */
  replace(endpoint: EndpointRecord): Promise<boolean>;
  /** The oldest first. */
  list(account: string): Promise<readonly EndpointRecord[]>;
  remove(account: string, id: string): Promise<boolean>;
  /** False only when no account with this name has an endpoint for certain: no event needs to be drafted. At once. */
  mayHaveAny(account: string): boolean;
}
