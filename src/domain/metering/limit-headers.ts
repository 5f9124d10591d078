import { headers } from "../../contract/headers.js";
import { goDuration } from "../../lib/go-duration.js";
import type { AnswerHead } from "../call/answer.js";
import type { LimitSnapshot } from "../call/rate-limits.js";
import type { Admitted } from "./ledger.js";

/** How the caller's limits stand: said of answers and of refusals. */
export interface LimitNews {
  readonly limits?: LimitSnapshot | undefined;
  /** Decided without the shared store. */
  readonly degraded: boolean;
}

/** The head of an answer: how it ran, and what its admission says of limits. */
export function answerHead(
  { deployment, attempts, queueMs }: Pick<AnswerHead, "deployment" | "attempts" | "queueMs">,
  { snapshot, degraded }: Admitted,
): AnswerHead {
  const head = { deployment, attempts, queueMs, degraded };
  return snapshot === undefined ? head : { ...head, limits: snapshot };
}

const none: Readonly<Record<string, string>> = Object.freeze({});

/**
 * The caller's limits as headers or metadata (wire RL-1): plain integers, and the time until the window is full again. A
 * dimension without a limit has none.
 */
export function limitHeaders({ limits, degraded }: LimitNews): Readonly<Record<string, string>> {
  if (limits === undefined && !degraded) return none;
  const said: Record<string, string> = {};
  if (limits?.requests !== undefined) {
    const { limit, remaining, resetMs } = limits.requests;
    said[headers.limitRequests] = String(limit);
    said[headers.remainingRequests] = String(remaining);
    said[headers.resetRequests] = goDuration(Math.ceil(resetMs));
  }
  if (limits?.tokens !== undefined) {
    const { limit, remaining, resetMs } = limits.tokens;
    said[headers.limitTokens] = String(limit);
    said[headers.remainingTokens] = String(remaining);
    said[headers.resetTokens] = goDuration(Math.ceil(resetMs));
  }
  if (degraded) said[headers.limitsDegraded] = "1";
  return said;
}
