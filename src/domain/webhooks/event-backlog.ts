import type { Clock, Logger } from "../call/ports.js";
import { type DeliveryQueue, fanOutMax } from "./delivery-queue.js";

/** Interval of creating deliveries in a process that sends no webhooks. */
const fanOutEveryMs = 500;
/** Pause between two steps of creating deliveries while events wait. */
const fanOutPauseMs = 20;
const everyMs = 10_000;
/**
 * Deliveries count as behind when the oldest waiting event has the first age, and as caught up when it is younger than the
 * second.
 */
const behindMs = 10_000;
const caughtUpMs = 1_000;

interface EventBacklogDeps {
  readonly queue: Pick<DeliveryQueue, "waitingEvents">;
  readonly clock: Pick<Clock, "after">;
  /** Store time. */
  readonly now: () => number;
  readonly log: Logger;
}

interface FanOutDeps {
  readonly queue: Pick<DeliveryQueue, "fanOut">;
  readonly clock: Pick<Clock, "after">;
  readonly log: Logger;
}

/**
 * Logs one line when events wait for their deliveries because requests create them faster than they can be sent (E-30), and
 * one line when they have caught up. Returns the function that stops the watch.
 */
export function watchEventBacklog({ queue, clock, now, log }: EventBacklogDeps): () => void {
  let isBehind = false;
  let isStopped = false;
  let cancelTimer = clock.after(everyMs, () => void look());

  function note(events: number, ageMs: number): void {
    const oldestS = Math.round(ageMs / 1_000);
    if (!isBehind && ageMs >= behindMs) {
      isBehind = true;
      const sentence =
        "webhooks are behind: requests create events faster than they can be delivered; no event is lost";
      log.warn({ events, oldest_s: oldestS }, sentence);
    } else if (isBehind && ageMs < caughtUpMs) {
      isBehind = false;
      log.info({ events }, "webhooks have caught up with the events");
    }
  }

  async function look(): Promise<void> {
    try {
      const { events, oldestAtMs } = await queue.waitingEvents();
      note(events, oldestAtMs === null ? 0 : now() - oldestAtMs);
    } catch (err) {
      log.debug({ err }, "waiting events could not be counted; retrying later");
    }
    if (!isStopped) cancelTimer = clock.after(everyMs, () => void look());
  }

  return () => {
    isStopped = true;
    cancelTimer();
  };
}

/**
 * Creates the deliveries of events in a process that sends no webhooks, so that they are listed, counted and bounded until
 * another process sends them. Returns the function that stops it.
 */
export function startFanOut({ queue, clock, log }: FanOutDeps): () => void {
  let isStopped = false;
  let cancelTimer = clock.after(fanOutEveryMs, () => void step());

  async function step(): Promise<void> {
    let hasMore = false;
    try {
      hasMore = await queue.fanOut(fanOutMax);
    } catch (err) {
      log.debug({ err }, "deliveries could not be created; retrying later");
    }
    if (!isStopped) cancelTimer = clock.after(hasMore ? fanOutPauseMs : fanOutEveryMs, () => void step());
  }

  return () => {
    isStopped = true;
    cancelTimer();
  };
}
