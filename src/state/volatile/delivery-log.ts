import type { DeliveryFilter } from "../../domain/webhooks/delivery-queue.js";
import { type DeliveryEntry, shownState } from "./delivery-entry.js";

/** Removed ones that may lie among the others before all are moved together. */
const holesMax = 1_000;

/** All deliveries in the order of their making. */
export class DeliveryLog {
  readonly #byId = new Map<string, DeliveryEntry>();
  /** Ascending by number; removed ones stay until they are many. */
  #order: DeliveryEntry[] = [];

  get size(): number {
    return this.#byId.size;
  }

  get(id: string): DeliveryEntry | undefined {
    return this.#byId.get(id);
  }

  add(entry: DeliveryEntry): void {
    this.#byId.set(entry.id, entry);
    this.#order.push(entry);
  }

  remove(entry: DeliveryEntry): void {
    this.#byId.delete(entry.id);
    const holes = this.#order.length - this.#byId.size;
    if (holes > holesMax && holes > this.#byId.size) this.#order = this.#order.filter((each) => this.#has(each));
  }

  /** From the one after this number on. */
  *oldest(after: number): Generator<DeliveryEntry> {
    for (let index = this.#indexAfter(after); index < this.#order.length; index++) {
      const entry = this.#order[index];
      if (entry !== undefined && this.#has(entry)) yield entry;
    }
  }

  /** From the one before this number on. */
  *newest(before: number): Generator<DeliveryEntry> {
    for (let index = this.#indexAfter(before - 1) - 1; index >= 0; index--) {
      const entry = this.#order[index];
      if (entry !== undefined && this.#has(entry)) yield entry;
    }
  }

  #has(entry: DeliveryEntry): boolean {
    return this.#byId.get(entry.id) === entry;
  }

  /** Index of the first with a number above this one. */
  #indexAfter(number: number): number {
    let [low, high] = [0, this.#order.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const entry = this.#order[middle];
      if (entry !== undefined && entry.number <= number) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

export function matches(entry: DeliveryEntry, filter: DeliveryFilter): boolean {
  return (
    isAny(filter.account, entry.account) &&
    isAny(filter.state, shownState(entry)) &&
    isAny(filter.endpointId, entry.endpointId) &&
    isAny(filter.eventType, entry.eventType) &&
    isAny(filter.replayId, entry.replayId) &&
    entry.createdAtMs >= (filter.fromMs ?? Number.NEGATIVE_INFINITY) &&
    entry.createdAtMs < (filter.toMs ?? Number.POSITIVE_INFINITY)
  );
}

function isAny<T>(wanted: T | null, value: T | null): boolean {
  return wanted === null || wanted === value;
}
