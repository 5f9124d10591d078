import type { AttemptResult } from "./delivery.js";
import type { AttemptOutcome, Claim } from "./delivery-queue.js";
import { isDelivered } from "./webhook-sender.js";

/**
 * What follows from an attempt (WH-19, WH-25, WH-27, WH-46): an answer with a status of 200 to 299 is a delivery, anything
 * else a failure. `delaysMs` has one wait for each retry that the schedule has, the first retry's first. A failure after
 * all of them, and that of a single attempt, is final.
 */
export function outcomeOf(
  { retriesUsed, isSingle }: Pick<Claim, "retriesUsed" | "isSingle">,
  result: Pick<AttemptResult, "status">,
  delaysMs: readonly number[],
): AttemptOutcome {
  if (isDelivered(result)) return { state: "delivered" };
  if (isSingle) return { state: "permanently_failed", reason: "manual_retry_failed" };
  const delayMs = delaysMs[retriesUsed];
  if (delayMs === undefined) return { state: "permanently_failed", reason: "retries_used_up" };
  return { state: "awaiting_retry", delayMs };
}

/**
 * The outcome when the store is told of it `lateMs` after the attempt's end: a retry is due so long after the failure,
 * not after the message of it, as long as that lies ahead.
 */
export function toldLater(outcome: AttemptOutcome, lateMs: number): AttemptOutcome {
  if (outcome.state !== "awaiting_retry") return outcome;
  // Rounded so that the retry is rather late than early (WH-26).
  return { ...outcome, delayMs: Math.max(0, outcome.delayMs - Math.floor(lateMs)) };
}
