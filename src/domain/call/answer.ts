import type { LimitSnapshot } from "./rate-limits.js";

/** Metadata of an answer, known when it is committed. Transports send it as headers. */
export interface AnswerHead {
  readonly limits?: LimitSnapshot;
  /** Limits were decided without the shared store. */
  readonly degraded: boolean;
  /** The deployment that answers: `<model>/<position>`. */
  readonly deployment: string;
  /** Number of deployments tried, including the one that answered. */
  readonly attempts: number;
  /** Time spent waiting for a slot. */
  readonly queueMs: number;
}

export interface Answer<M> {
  readonly head: AnswerHead;
  readonly body: M;
}

/**
 * Resolves when the answer is committed: at the first content, or limits.commitMs after the slot was granted. Before
 * that every failure is a rejection, after it `items` throws. The last item waits for the settlement. `items` is
 * iterated once; it must be iterated or the call's signal aborted.
 */
export interface StreamAnswer<M> {
  readonly head: AnswerHead;
  readonly items: AsyncIterable<M>;
}
