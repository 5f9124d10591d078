import type { Settlement } from "../../../domain/metering/ledger.js";

/** Longer than a cluster needs to replace a primary, and this process to notice it. */
const keptMs = 30_000;
/** About 20 MB of settlements with events. */
const keptMax = 20_000;
/** Settled entries at the front that are worth moving the others for. */
const movedMin = 1_024;

interface Kept {
  /** With the time at which the request ended. */
  readonly settlement: Settlement;
  /** Monotonic. */
  readonly atMs: number;
}

/**
 * Settlements that a primary has acknowledged in the last 30 s, at most 20,000. Redis acknowledges a write before its
 * replicas have it, so a replica that replaces the primary may lack them. They are then sent again: the store ignores a
 * request that it has.
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

  /** Those kept now, the oldest first. They stay kept: the new primary may be replaced too. */
  all(): readonly Settlement[] {
    return this.#kept.slice(this.#first).map(({ settlement }) => settlement);
  }
}
