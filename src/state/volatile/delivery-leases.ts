import type { DeliveryEntry } from "./delivery-entry.js";
import { Heap } from "./heap.js";

interface Lease {
  readonly untilMs: number;
  readonly entry: DeliveryEntry;
  readonly fence: number;
}

/** Leases that ended before their time lie about until they are so many more than those that are held. */
const endedMax = 1_000;

/** Which deliveries are held, by when their leases run out. */
export class DeliveryLeases {
  readonly #leases = new Heap<Lease>((a, b) => a.untilMs < b.untilMs);
  #held = 0;

  take(entry: DeliveryEntry, untilMs: number): void {
    entry.leasedUntilMs = untilMs;
    this.#held += 1;
    this.#leases.push({ untilMs, entry, fence: entry.fence });
    if (this.#leases.size > 2 * this.#held + endedMax) this.#leases.retain(isHeld);
  }

  /** Of one that is held. */
  end(entry: DeliveryEntry): void {
    entry.leasedUntilMs = null;
    this.#held -= 1;
  }

  /** One whose lease has run out; null: there is none. */
  firstOver(nowMs: number): DeliveryEntry | null {
    const first = this.#first();
    return first !== undefined && first.untilMs <= nowMs ? first.entry : null;
  }

  /** When the next one runs out; null: none is held. */
  nextAtMs(): number | null {
    return this.#first()?.untilMs ?? null;
  }

  #first(): Lease | undefined {
    for (;;) {
      const first = this.#leases.peek();
      if (first === undefined || isHeld(first)) return first;
      this.#leases.pop();
    }
  }
}

function isHeld({ entry, fence }: Lease): boolean {
  return entry.leasedUntilMs !== null && entry.fence === fence;
}
