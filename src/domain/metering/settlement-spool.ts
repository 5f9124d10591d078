import type { Settlement } from "./ledger.js";

/** A settlement that waits for the store. */
export interface SpooledSettlement {
  readonly settlement: Settlement;
  /** The place after it: what `release` is told when it is settled. */
  readonly end: SpoolPlace;
}

/** A place in the spool; only the spool knows what it means. */
export type SpoolPlace = string;

/** Where settlements wait while the store is away (USE-11). */
export interface SettlementSpool {
  /**
   * Resolves when it is on the disk, or in memory where the disk cannot be written. Rejects with ServiceError
   * `storage_unavailable` when there is no room.
   */
  append(settlement: Settlement): Promise<void>;
  /** The oldest ones, at most `max`; empty when none waits. */
  oldest(max: number): Promise<readonly SpooledSettlement[]>;
  /** All up to this place are settled. */
  release(place: SpoolPlace): Promise<void>;
  readonly size: number;
  /** How many fit. */
  readonly sizeMax: number;
  /** Wall-clock time at which the oldest one's request ended; null when none waits. */
  readonly oldestAtMs: number | null;
  close(): Promise<void>;
}
