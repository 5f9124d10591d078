import { sha256Hex } from "../../lib/digest.js";
import type { StopSignal } from "../../lib/lazy-abort.js";
import { errorOfEnd } from "../call/call-context.js";
import type { DeliveryQueue, ReplayRequest } from "./delivery-queue.js";

/** Which deliveries to send again, and how. */
export type ReplayOrder = Omit<ReplayRequest, "after" | "max" | "firstInMs" | "spacingMs">;

/** How far a replay is. */
export interface ReplayProgress {
  /** By this call. */
  queued: number;
  /** Of the replay, still on their way, those of this call included. */
  waiting: number;
  delivered: number;
  failed: number;
}

/** Deliveries that one call may queue, and how many of them are due in a second. */
const queuedMax = 10_000;
const duePerS = 50;
/** Deliveries that one step looks at: what the store does at a time. */
const stepMax = 500;
const spacingMs = 1_000 / duePerS;

/**
 * Queues what the order names and adds to `progress` with every step (WH-48). What earlier calls of the replay have
 * queued and is still waiting comes first. When the signal aborts it rejects with the ServiceError of that end; what was
 * queued stays so, and the same order goes on where this one ended.
 */
export async function runReplay(
  queue: Pick<DeliveryQueue, "replay">,
  order: ReplayOrder,
  progress: ReplayProgress,
  signal: StopSignal,
): Promise<void> {
  let after: string | null = null;
  do {
    if (signal.aborted) throw errorOfEnd(signal.reason);
    const max = Math.min(stepMax, queuedMax - progress.queued);
    const firstInMs = progress.waiting * spacingMs;
    const step = await queue.replay({ ...order, after, max, firstInMs, spacingMs });
    progress.queued += step.queued;
    progress.waiting += step.queued + step.waiting;
    progress.delivered += step.delivered;
    progress.failed += step.failed;
    after = step.next;
  } while (after !== null && progress.queued < queuedMax);
}

/**
 * The name of a replay that was given none: the same for the same order. The end of its span is left out, because a call
 * that names no end means another one each time.
 */
export function replayIdOf({ account, endpointId, fromMs, which, restart }: Omit<ReplayOrder, "replayId">): string {
  return `rpl_${sha256Hex(JSON.stringify([account, endpointId, fromMs, which, restart])).slice(0, 32)}`;
}
