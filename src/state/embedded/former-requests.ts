import type { LostRequest } from "../../domain/metering/ledger.js";

interface Left {
  readonly request: LostRequest;
  /** On the monotonic clock: until then somebody is settling it. */
  leasedUntilMs: number;
}

/**
 * Requests that the process before this one left running. No other process can have the file, so they are lost from the
 * start: the first sweep finds them.
 */
export class FormerRequests {
  readonly #left = new Map<string, Left>();

  constructor(requests: readonly LostRequest[]) {
    for (const request of requests) this.#left.set(request.requestId, { request, leasedUntilMs: 0 });
  }

  /** At most `max` that nobody is settling; each is leased for `leaseMs`. */
  sweep(max: number, leaseMs: number, nowMs: number): LostRequest[] {
    const lost: LostRequest[] = [];
    for (const left of this.#left.values()) {
      if (lost.length >= max) break;
      if (left.leasedUntilMs > nowMs) continue;
      left.leasedUntilMs = nowMs + leaseMs;
      lost.push(left.request);
    }
    return lost;
  }

  /** It is settled. Without effect for any other. */
  remove(requestId: string): void {
    this.#left.delete(requestId);
  }
}
