import { deliveredKeptMs, failedKeptMs } from "../../domain/webhooks/delivery-queue.js";
import type { DeliveryEntry } from "./delivery-entry.js";

/** Those that ended alike, each in the order of their ends. */
interface Kept {
  readonly keptMs: number;
  /** That keep their payload; more lose it earlier. */
  readonly max: number;
  readonly whole: Set<DeliveryEntry>;
  readonly purged: Set<DeliveryEntry>;
}

/** Deliveries at their end, and how long they are kept (WH-50). */
export class EndedDeliveries {
  readonly #delivered: Kept;
  readonly #failed: Kept;

  constructor(deliveredMax: number) {
    this.#delivered = { keptMs: deliveredKeptMs, max: deliveredMax, whole: new Set(), purged: new Set() };
    this.#failed = { keptMs: failedKeptMs, max: Number.POSITIVE_INFINITY, whole: new Set(), purged: new Set() };
  }

  add(entry: DeliveryEntry): void {
    this.#keptOf(entry).whole.add(entry);
  }

  /** It is to be sent again: only one that is whole can be. */
  remove(entry: DeliveryEntry): void {
    this.#keptOf(entry).whole.delete(entry);
  }

  /** Takes payload and attempts of the old ones and forgets the oldest, at most `max` in all; how many. */
  purge(nowMs: number, max: number, forget: (entry: DeliveryEntry) => void): number {
    let left = max;
    for (const kept of [this.#delivered, this.#failed]) {
      left -= purgeWhole(kept, nowMs, left);
      left -= forgetOld(kept, nowMs, left, forget);
    }
    return max - left;
  }

  /** Forgets the first ones to have ended, whatever their age; how many. */
  drop(max: number, forget: (entry: DeliveryEntry) => void): number {
    let dropped = 0;
    for (const set of [this.#delivered.purged, this.#failed.purged, this.#delivered.whole, this.#failed.whole]) {
      for (const entry of set) {
        if (dropped === max) return dropped;
        set.delete(entry);
        forget(entry);
        dropped += 1;
      }
    }
    return dropped;
  }

  #keptOf({ state }: DeliveryEntry): Kept {
    return state === "delivered" ? this.#delivered : this.#failed;
  }
}

function purgeWhole({ keptMs, max: wholeMax, whole, purged }: Kept, nowMs: number, max: number): number {
  let done = 0;
  for (const entry of whole) {
    const isOld = entry.endedAtMs + keptMs <= nowMs || whole.size > wholeMax;
    if (done === max || !isOld) break;
    whole.delete(entry);
    purged.add(entry);
    entry.body = null;
    entry.attempts = [];
    done += 1;
  }
  return done;
}

function forgetOld(kept: Kept, nowMs: number, max: number, forget: (entry: DeliveryEntry) => void): number {
  let done = 0;
  for (const entry of kept.purged) {
    if (done === max || entry.endedAtMs + 2 * kept.keptMs > nowMs) break;
    kept.purged.delete(entry);
    forget(entry);
    done += 1;
  }
  return done;
}
