import type { AbortFlag } from "../../lib/abort-source.js";
import { FairShare, FairShareFull, type FairShareLimits } from "../../lib/fair-share.js";
import { type CallContext, errorOfEnd, shareOwnerOf } from "./call-context.js";
import { ServiceError } from "./service-error.js";

/**
 * Units of each resource. Three more are shared elsewhere: slots of models (`WaitingRoom`, whose queue has one line for each
 * key), bytes of request bodies (`BodyBudget`, which has no queue), and attempts of deliveries, whose queue is in the store.
 */
const limitsOf = {
  /** Host names of webhooks under look-up (E-11). They cost no thread, so that the maximum of an account comes first. */
  lookups: { capacity: 4_096, accountMax: 32, contendedMax: 32, waitingMax: 4_096 },
  /** Reads of usage (E-10). The embedded store alternates between slices of those that run. */
  usage_reads: { capacity: 8, accountMax: 4, contendedMax: 2, waitingMax: 1_000 },
  /** Pages of API keys, deliveries, request logs and audit records. */
  lists: { capacity: 8, accountMax: 4, contendedMax: 2, waitingMax: 1_000 },
  /**
   * Requests whose prompts are counted, for a limit or by CountTokens (E-3). Prompts of requests that run are tokenized in
   * slots of their model, which are shared by account already.
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

/** Runs a task with one unit of the caller's share. Rejects with ServiceError while it waits, and like the task. */
export async function runInShare<T>(
  share: FairShare,
  caller: Pick<CallContext, "principal" | "address">,
  signal: AbortFlag,
  task: () => Promise<T>,
): Promise<T> {
  const release = await share.acquire(shareOwnerOf(caller), signal).catch((error: unknown) => {
    if (signal.aborted) throw errorOfEnd(signal.reason);
    if (!(error instanceof FairShareFull)) throw error;
    const message = "Too many requests of this account wait already. Send fewer at once.";
    throw new ServiceError("server_is_overloaded", message, { retryAfterMs, cause: error });
  });
  try {
    return await task();
  } finally {
    release();
  }
}
