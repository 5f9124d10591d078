import type { AbortFlag } from "../../lib/abort-source.js";
import { FairShare, FairShareFull, type FairShareLimits } from "../../lib/fair-share.js";
import { type CallContext, errorOfEnd, shareOwnerOf } from "./call-context.js";
import { ServiceError } from "./service-error.js";

/**
 * Limits of the resources that accounts share. Three other resources are shared by other code: slots of models by
 * `WaitingRoom` (with one queue for each key), bytes of request bodies by `BodyBudget` (without a queue), and attempts of
 * deliveries by the queue in the store.
 */
const limitsOf = {
  /**
   * DNS look-ups of webhook hosts (E-11). A look-up takes no thread, so the capacity is so large that accounts reach their
   * own maximum first.
   */
  lookups: { capacity: 4_096, accountMax: 32, contendedMax: 32, waitingMax: 4_096 },
  /**
   * Reads of usage (E-10). The embedded store runs one slice of all reads at a time, so two of an account are enough to keep
   * it busy; more would only hold memory.
   */
  usage_reads: { capacity: 8, accountMax: 2, contendedMax: 2, waitingMax: 1_000 },
  /** Pages of API keys, deliveries, request logs and audit records, read in steps in the same way. */
  lists: { capacity: 8, accountMax: 2, contendedMax: 2, waitingMax: 1_000 },
  /**
   * Requests whose prompt tokens are being counted, for a limit or by CountTokens (E-3). Prompts of running requests are
   * tokenized in slots of their model, which accounts already share.
   */
  tokenizing: { capacity: 16, accountMax: 8, contendedMax: 4, waitingMax: 4_096 },
} as const satisfies Record<string, FairShareLimits>;

export type SharedResource = keyof typeof limitsOf;

/** The resources of this process that its accounts share. */
export type FairShares = Readonly<Record<SharedResource, FairShare>>;

export function createFairShares(): FairShares {
  return {
    lookups: new FairShare(limitsOf.lookups),
    usage_reads: new FairShare(limitsOf.usage_reads),
    lists: new FairShare(limitsOf.lists),
    tokenizing: new FairShare(limitsOf.tokenizing),
  };
}

const retryAfterMs = 1_000;

/**
 * Runs a task with one unit of the caller's share. Rejects with ServiceError if too many tasks of the caller wait or the
 * signal aborts during the wait; otherwise settles like the task.
 */
export async function runInShare<T>(
  share: FairShare,
  caller: Pick<CallContext, "principal" | "address">,
  signal: AbortFlag,
  task: () => T | Promise<T>,
): Promise<T> {
  const release = await share.acquire(shareOwnerOf(caller), signal).catch((error: unknown) => {
    if (signal.aborted) throw errorOfEnd(signal.reason);
    if (!(error instanceof FairShareFull)) throw error;
    const message = "Too many requests of this account are already waiting. Send fewer in parallel.";
    throw new ServiceError("server_is_overloaded", message, { retryAfterMs, cause: error });
  });
  try {
    return await task();
  } finally {
    release();
  }
}
