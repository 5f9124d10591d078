import { errorOfEnd } from "../call/call-context.js";
import type { Clock } from "../call/ports.js";
import { accountOf, type Principal } from "../call/principal.js";
import { queryUsage, type UsageBucket, type UsageGroup, type UsagePage, type UsageQuestion } from "./usage-query.js";
import type { UsageReader } from "./usage-store.js";

export interface UsageQuestionsDeps {
  readonly usage: Pick<UsageReader, "rows">;
  readonly clock: Clock;
  /** Store time. */
  readonly now: () => number;
}

/** Minimum interval between updates of a watch. */
const watchEveryMs = 2_000;

/** Usage queries of callers: of their own account, for the administrator of any (USE-10, SEC-22). */
export class UsageQuestions {
  readonly #deps: UsageQuestionsDeps;

  constructor(deps: UsageQuestionsDeps) {
    this.#deps = deps;
  }

  /** An empty `account` is the caller's own. Rejects with ServiceError. */
  async query(principal: Principal, question: UsageQuestion): Promise<UsagePage> {
    return await queryUsage(this.#deps, { ...question, account: accountOf(principal, question.account) });
  }

  /** Yields the current day at once and after each change, until the signal aborts. Rejects with ServiceError. */
  async *watch(
    principal: Principal,
    asked: { readonly account: string; readonly groupBy: readonly UsageGroup[] },
    signal: AbortSignal,
  ): AsyncGenerator<UsageBucket> {
    const account = accountOf(principal, asked.account);
    const today = { account, groupBy: asked.groupBy, startMs: null, endMs: null, width: "day", limit: 1, page: "" };
    let told = "";
    for (;;) {
      if (signal.aborted) throw errorOfEnd(signal.reason);
      const { buckets } = await queryUsage(this.#deps, { ...today, width: "day" });
      const bucket = buckets[0];
      const state = fingerprint(bucket);
      if (bucket !== undefined && state !== told) yield bucket;
      told = state;
      await this.#pause(signal);
    }
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
