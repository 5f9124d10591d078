import type { Settlement } from "../../../domain/metering/ledger.js";

/**
 * How long a settlement is kept. It is longer than a cluster needs to replace a primary and this process needs to notice
 * that.
 */
const keptMs = 30_000;
/** Maximum number of kept settlements, about 20 MB with their events. */
const keptMax = 20_000;
/** Minimum number of expired entries at the front of the list before the others are moved to its start. */
const movedMin = 1_024;

interface Kept {
  /** The settlement, including the time at which the request ended. */
  readonly settlement: Settlement;
  /** Monotonic. */
  readonly atMs: number;
}

/**
 * Settlements that a primary has acknowledged in the last 30 s, at most 20,000. Redis acknowledges a write before its
 * replicas have it, so a replica that replaces the primary may lack them. They are then sent again; the store ignores the
 * settlements that it has.
 */
export class AcknowledgedSettlements {
  #kept: Kept[] = [];
  #first = 0;

  keep(settlement: Settlement, atMs: number): void {
    this.#kept.push({ settlement, atMs });
    for (let oldest = this.#kept[this.#first]; oldest !== undefined; oldest = this.#kept[this.#first]) {
      if (oldest.atMs > atMs - keptMs && this.#kept.length - this.#first <= keptMax) break;
      this.#first += 1;
    }
    if (this.#first < movedMin || this.#first < this.#kept.length / 2) return;
    this.#kept = this.#kept.slice(this.#first);
    this.#first = 0;
  }

  /**
   * The settlements that are kept now, the oldest first. They stay in the list, because the new primary may be replaced
   * too.
   */
  all(): readonly Settlement[] {
    return this.#kept.slice(this.#first).map(({ settlement }) => settlement);
  }
}
