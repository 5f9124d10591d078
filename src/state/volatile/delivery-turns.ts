import type { EndpointLine } from "./endpoint-line.js";
import { Heap } from "./heap.js";

/** What may be done with deliveries to an endpoint: claim so many at a time, or end them all. */
export type Standing =
  | { readonly isOpen: true; readonly maxInFlight: number }
  | { readonly isOpen: false; readonly reason: "endpoint_disabled" | "endpoint_deleted" };

interface Sleeper {
  readonly untilMs: number;
  readonly line: EndpointLine;
}

/**
 * Whose turn it is (WH-37). A line stands among the ready ones, or sleeps until its first delivery is due, or is to be
 * ended with its endpoint. One that is full stands nowhere until a place is free, and is placed again then.
 */
export class DeliveryTurns {
  readonly #standingOf: (line: EndpointLine) => Standing;
  /** In the order of their turns. */
  readonly #ready = new Set<EndpointLine>();
  readonly #closed = new Set<EndpointLine>();
  readonly #sleepers = new Heap<Sleeper>((a, b) => a.untilMs < b.untilMs);
  /** Until when each sleeps, so that none is woken twice for the same. */
  readonly #sleepsUntil = new Map<EndpointLine, number>();

  constructor(standingOf: (line: EndpointLine) => Standing) {
    this.#standingOf = standingOf;
  }

  /** To be called after whatever changes a line or its endpoint. A ready one keeps its turn. */
  place(line: EndpointLine, nowMs: number): void {
    const firstMs = line.firstDueAtMs();
    const standing = this.#standingOf(line);
    const isClosed = firstMs !== null && !standing.isOpen;
    const hasRoom = standing.isOpen && line.held < standing.maxInFlight;
    const isReady = firstMs !== null && hasRoom && firstMs <= nowMs;
    put(this.#closed, line, isClosed);
    put(this.#ready, line, isReady);
    if (firstMs !== null && hasRoom && !isReady) this.#sleep(line, firstMs);
  }

  /** Takes one due delivery of each ready line after the other by `take`, until it has had `max` or there are no more. */
  each(max: number, nowMs: number, take: (line: EndpointLine) => void): void {
    this.#wake(nowMs);
    let left = max;
    // A line that is still ready comes round again: a Set goes on to what is added while it is walked.
    for (const line of this.#ready) {
      if (left === 0) return;
      this.#ready.delete(line);
      take(line);
      this.place(line, nowMs);
      left -= 1;
    }
  }

  /** Lines whose endpoint is closed. */
  closed(): Iterable<EndpointLine> {
    return this.#closed;
  }

  /** When there is something to do next: now, later, or never (null) as far as is known. */
  nextAtMs(nowMs: number): number | null {
    if (this.#ready.size > 0 || this.#closed.size > 0) return nowMs;
    return this.#sleepers.peek()?.untilMs ?? null;
  }

  #sleep(line: EndpointLine, untilMs: number): void {
    const known = this.#sleepsUntil.get(line);
    if (known !== undefined && known <= untilMs) return;
    this.#sleepsUntil.set(line, untilMs);
    this.#sleepers.push({ untilMs, line });
  }

  #wake(nowMs: number): void {
    for (;;) {
      const first = this.#sleepers.peek();
      if (first === undefined || first.untilMs > nowMs) return;
      this.#sleepers.pop();
      if (this.#sleepsUntil.get(first.line) !== first.untilMs) continue;
      this.#sleepsUntil.delete(first.line);
      this.place(first.line, nowMs);
    }
  }
}

function put<T>(set: Set<T>, item: T, isIn: boolean): void {
  if (isIn) set.add(item);
  else set.delete(item);
}
