import type { EndReason } from "./call-context.js";

/**
 * Where a call stands: its body comes in, it waits for a slot, an engine runs it, its answer is on the way to a client,
 * or it watches something.
 */
export type Stage = "receiving" | "queued" | "running" | "delivering" | "watching";

/** One call between `open` and `close`. */
export interface LiveRequest {
  readonly id: string;
  readonly account: string;
  readonly keyId: string | null;
  /** Known once the request is validated. */
  readonly model: string | null;
  readonly stage: Stage;
  /** Ends the call; the first reason counts. */
  abort(why: EndReason): void;
}

/** All calls of this process. Serves revocation, drain, lease renewal and `/debug/state`. */
export class LiveRequests {
  readonly #calls = new Map<string, LiveRequest>();
  readonly #emptied: (() => void)[] = [];

  add(call: LiveRequest): void {
    this.#calls.set(call.id, call);
  }

  remove(id: string): void {
    this.#calls.delete(id);
    if (this.#calls.size > 0) return;
    for (const emptied of this.#emptied.splice(0)) emptied();
  }

  get size(): number {
    return this.#calls.size;
  }

  /** Calls per stage; stages without a call are left out. */
  countByStage(): Partial<Record<Stage, number>> {
    const counts: Partial<Record<Stage, number>> = {};
    for (const call of this.#calls.values()) counts[call.stage] = (counts[call.stage] ?? 0) + 1;
    return counts;
  }

  /** Ends every call of a key (KEY-13). */
  abortKey(keyId: string): void {
    this.#abortWhere((call) => call.keyId === keyId, "key_revoked");
  }

  /** Ends calls that would never end by themselves. */
  abortWatches(): void {
    this.#abortWhere((call) => call.stage === "watching", "shutting_down");
  }

  abortAll(why: EndReason): void {
    this.#abortWhere(() => true, why);
  }

  /** Resolves when no call is left. */
  emptied(): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#emptied.push(resolve));
  }

  #abortWhere(concerns: (call: LiveRequest) => boolean, why: EndReason): void {
    for (const call of [...this.#calls.values()]) if (concerns(call)) call.abort(why);
  }
}
