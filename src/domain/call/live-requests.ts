import type { EndReason } from "./call-context.js";

import type { UsageTotal } from "./usage-tally.js";

/**
 * Stage of a call: reading its body, waiting for a slot, running in an engine, writing its answer, or watching for
 * changes.
 */
export type Stage = "receiving" | "queued" | "running" | "delivering" | "watching";

/** One call between `open` and `close`. */
export interface LiveRequest {
  readonly id: string;
  readonly account: string;
  readonly keyId: string | null;
  /** Id of the dashboard session; null otherwise. */
  readonly sessionId: string | null;
  /** Known once the request is validated. */
  readonly model: string | null;
  readonly stage: Stage;
  /** Usage so far; null before admission. */
  readonly usedSoFar: UsageTotal | null;
  /** Index in the list; written by LiveRequests only. */
  place: number;
  /** Ends the call; the first reason counts. */
  abort(why: EndReason): void;
}

/** All open calls of this process, in no order. Used for revocation, drain, lease renewal and `/debug/state`. */
export class LiveRequests {
  /** A list with swap-remove: a Map of entries this short-lived would be rebuilt all the time. */
  readonly #calls: LiveRequest[] = [];
  readonly #emptied: (() => void)[] = [];

  add(call: LiveRequest): void {
    call.place = this.#calls.length;
    this.#calls.push(call);
  }

  /** Call it once for each added call. */
  remove(call: LiveRequest): void {
    const last = this.#calls.pop();
    if (last !== undefined && last !== call) {
      this.#calls[call.place] = last;
      last.place = call.place;
    }
    if (this.#calls.length > 0) return;
    for (const emptied of this.#emptied.splice(0)) emptied();
  }

  get size(): number {
    return this.#calls.length;
  }

  /** Calls per stage; stages without a call are left out. */
  countByStage(): Partial<Record<Stage, number>> {
    const counts: Partial<Record<Stage, number>> = {};
    for (const call of this.#calls) counts[call.stage] = (counts[call.stage] ?? 0) + 1;
    return counts;
  }

  /** Progress of the admitted calls. */
  progress(): readonly Progress[] {
    const progress: Progress[] = [];
    for (const { id, account, usedSoFar } of this.#calls) {
      if (usedSoFar === null) continue;
      const { promptTokens, completionTokens } = usedSoFar;
      progress.push({ requestId: id, account, promptTokens, completionTokens });
    }
    return progress;
  }

  /** Ids of the keys in use. */
  keyIds(): ReadonlySet<string> {
    const ids = new Set<string>();
    for (const { keyId } of this.#calls) if (keyId !== null) ids.add(keyId);
    return ids;
  }

  /** Ids of the sessions in use. */
  sessionIds(): ReadonlySet<string> {
    const ids = new Set<string>();
    for (const { sessionId } of this.#calls) if (sessionId !== null) ids.add(sessionId);
    return ids;
  }

  /** Ends every call of a session. */
  abortSession(sessionId: string): void {
    this.#abortWhere((call) => call.sessionId === sessionId, "key_revoked");
  }

  /** Ends every call of a key (KEY-13). */
  abortKey(keyId: string): void {
    this.#abortWhere((call) => call.keyId === keyId, "key_revoked");
  }

  /** Ends calls that only watch. */
  abortWatches(): void {
    this.#abortWhere((call) => call.stage === "watching", "shutting_down");
  }

  abortAll(why: EndReason): void {
    this.#abortWhere(() => true, why);
  }

  /** Resolves when no call is open. */
  emptied(): Promise<void> {
    if (this.#calls.length === 0) return Promise.resolve();
    return new Promise((resolve) => this.#emptied.push(resolve));
  }

  #abortWhere(concerns: (call: LiveRequest) => boolean, why: EndReason): void {
    for (const call of this.#calls.slice()) if (concerns(call)) call.abort(why);
  }
}

/** Usage of a running request so far, in case its process dies. */
export interface Progress {
  readonly requestId: string;
  readonly account: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
}
