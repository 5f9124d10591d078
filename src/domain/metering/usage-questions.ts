import { type CallContext, errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import { accountOf } from "../call/principal.js";
import { type LimitScope, windowHealsMs } from "../call/rate-limits.js";
import type { Ledger, LimitRefusal, WindowUse } from "./ledger.js";
import type { LimitBook } from "./limit-book.js";
import { errorOfRefusal } from "./limit-response.js";
import { queryUsage, type UsageBucket, type UsagePage, type UsageQuestion } from "./usage-query.js";
import type { UsageGroup, UsageReader } from "./usage-store.js";

export interface UsageQuestionsDeps {
  readonly usage: Pick<UsageReader, "groups">;
  readonly ledger: Pick<Ledger, "inspect" | "chargeRefused">;
  readonly limitBook: Pick<LimitBook, "scopesOf">;
  readonly clock: Clock;
  /** Store time. */
  readonly now: () => number;
}

export type UsageCaller = Pick<CallContext, "principal" | "requestId" | "signal">;

/** Minimum interval between two updates of a watch. */
const watchEveryMs = 2_000;
/** Wait that is sent with a refusal for concurrency, as an inference request gets it. */
const concurrencyRetryMs = 1_000;

/**
 * Usage as callers may read it: their own account, the administrator any (USE-10, SEC-22). A read counts as one request
 * of its key and takes one of its concurrent ones; it charges no tokens and leaves no usage (E-10).
 */
export class UsageQuestions {
  readonly #deps: UsageQuestionsDeps;
  /** Reads in progress, by key. */
  readonly #running = new Map<string, number>();
  /** Admissions of one key follow each other: two at a time would both see the last free place. */
  readonly #admitting = new Map<string, Promise<unknown>>();

  constructor(deps: UsageQuestionsDeps) {
    this.#deps = deps;
  }

  /** An empty `account` is the caller's own. Rejects with ServiceError, also when the caller hangs up. */
  async query(caller: UsageCaller, question: UsageQuestion): Promise<UsagePage> {
    const account = accountOf(caller.principal, question.account);
    const release = await this.#admit(caller);
    try {
      return await this.#read(caller, { ...question, account });
    } finally {
      release();
    }
  }

  /** Yields the current day at once and after each change, until the signal aborts. Rejects with ServiceError. */
  async *watch(
    caller: UsageCaller,
    asked: { readonly account: string; readonly groupBy: readonly UsageGroup[] },
  ): AsyncGenerator<UsageBucket> {
    const { signal } = caller;
    const account = accountOf(caller.principal, asked.account);
    const today = {
      account,
      groupBy: asked.groupBy,
      startMs: null,
      endMs: null,
      width: "day",
      limit: 1,
      page: "",
    } as const;
    const release = await this.#admit(caller);
    try {
      let sent = "";
      for (;;) {
        if (signal.aborted) throw errorOfEnd(signal.reason);
        const { buckets } = await this.#read(caller, today);
        const bucket = buckets[0];
        const state = fingerprint(bucket);
        if (bucket !== undefined && state !== sent) yield bucket;
        sent = state;
        await this.#pause(signal);
      }
    } finally {
      release();
    }
  }

  async #read({ signal }: UsageCaller, question: UsageQuestion): Promise<UsagePage> {
    try {
      return await queryUsage(this.#deps, question, signal);
    } catch (error) {
      throw signal.aborted ? errorOfEnd(signal.reason) : error;
    }
  }

  /** Charges the request. The returned function gives the place back. */
  async #admit({ principal, requestId }: UsageCaller): Promise<() => void> {
    const { keyId, account } = principal;
    const scopes = this.#deps.limitBook.scopesOf(principal, null).filter(({ owner }) => owner.kind === "key");
    const [scope] = scopes;
    if (keyId === null || scope === undefined) return () => {};
    const { ledger } = this.#deps;
    const admitted = (this.#admitting.get(keyId) ?? Promise.resolve()).then(async () => {
      const [use] = await ledger.inspect(account, scopes);
      const running = this.#running.get(keyId) ?? 0;
      const refusal = refusalOf(scope, use, running);
      if (refusal !== null) throw errorOfRefusal({ refusal, degraded: false });
      await ledger.chargeRefused({ requestId, account, keyId, scopes });
      this.#running.set(keyId, running + 1);
    });
    const settled = admitted.catch(() => {});
    this.#admitting.set(keyId, settled);
    try {
      await admitted;
    } finally {
      if (this.#admitting.get(keyId) === settled) this.#admitting.delete(keyId);
    }
    return () => {
      const left = (this.#running.get(keyId) ?? 1) - 1;
      if (left === 0) this.#running.delete(keyId);
      else this.#running.set(keyId, left);
    };
  }

  #pause(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const over = (): void => {
        cancelTimer();
        signal.removeEventListener("abort", over);
        resolve();
      };
      const cancelTimer = this.#deps.clock.after(watchEveryMs, over);
      signal.addEventListener("abort", over);
    });
  }
}

/** The end of the current bucket moves with the clock, which is not a change. */
function fingerprint(bucket: UsageBucket | undefined): string {
  if (bucket === undefined) return "";
  const results = bucket.results.map((result) => Object.values(result).map(String).join("/"));
  return `${bucket.startMs} ${results.join(" ")}`;
}

function refusalOf({ owner, limits }: LimitScope, use: WindowUse | undefined, reads: number): LimitRefusal | null {
  const requests = use?.requests ?? 0;
  const running = (use?.running ?? 0) + reads;
  const { requestsPerMinute, concurrency } = limits;
  if (requestsPerMinute !== null && requests >= requestsPerMinute) {
    const figures = { owner, limit: requestsPerMinute, used: requests, requested: 1 };
    return { which: "requests", ...figures, retryAfterMs: requestsPerMinute === 0 ? null : windowHealsMs };
  }
  if (concurrency !== null && running >= concurrency) {
    const figures = { owner, limit: concurrency, used: running, requested: 1 };
    return { which: "concurrency", ...figures, retryAfterMs: concurrency === 0 ? null : concurrencyRetryMs };
  }
  return null;
}
