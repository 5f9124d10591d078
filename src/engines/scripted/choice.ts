import type { FinishReason, GenEvent } from "../../domain/engine/engine.js";

/** One choice of an answer, produced step by step. */
export interface Choice {
  readonly index: number;
  /** Tokens so far, held-back text included. */
  readonly produced: number;
  /** Tokens still to come. */
  readonly left: number;
  /** Why it ended, once nothing is left. */
  readonly reason: FinishReason;
  /** Produces up to `count` tokens and returns the events that they cause, in a list of the caller's own. */
  take(count: number): GenEvent[];
}
