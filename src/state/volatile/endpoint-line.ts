import type { DeliveryEntry } from "./delivery-entry.js";
import { Heap } from "./heap.js";

interface Ticket {
  readonly dueAtMs: number;
  readonly entry: DeliveryEntry;
}

/** Deliveries to one endpoint that wait, by when they are due; those due at the same moment in the order of making. */
export class EndpointLine {
  readonly account: string;
  readonly endpointId: string;
  /** Deliveries that somebody holds. */
  held = 0;
  readonly #tickets = new Heap<Ticket>(isBefore);
  /** The ticket that counts; others of the same delivery are left overs of an earlier date. */
  readonly #valid = new Map<DeliveryEntry, Ticket>();

  constructor(account: string, endpointId: string) {
    this.account = account;
    this.endpointId = endpointId;
  }

  get waiting(): number {
    return this.#valid.size;
  }

  /** Lets it wait until it is due, instead of until when it waited before. */
  put(entry: DeliveryEntry): void {
    const ticket = { dueAtMs: entry.dueAtMs, entry };
    this.#valid.set(entry, ticket);
    this.#tickets.push(ticket);
  }

  leave(entry: DeliveryEntry): void {
    this.#valid.delete(entry);
  }

  /** When the first one is due; null: none waits. */
  firstDueAtMs(): number | null {
    return this.#first()?.dueAtMs ?? null;
  }

  /** Takes the first one out, due or not. */
  take(): DeliveryEntry | null {
    const first = this.#first();
    if (first === undefined) return null;
    this.#tickets.pop();
    this.#valid.delete(first.entry);
    return first.entry;
  }

  countDue(nowMs: number): number {
    let due = 0;
    for (const { dueAtMs } of this.#valid.values()) if (dueAtMs <= nowMs) due += 1;
    return due;
  }

  #first(): Ticket | undefined {
    for (;;) {
      const first = this.#tickets.peek();
      if (first === undefined || this.#valid.get(first.entry) === first) return first;
      this.#tickets.pop();
    }
  }
}

function isBefore(a: Ticket, b: Ticket): boolean {
  return a.dueAtMs < b.dueAtMs || (a.dueAtMs === b.dueAtMs && a.entry.number < b.entry.number);
}
