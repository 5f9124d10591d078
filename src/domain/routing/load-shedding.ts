import { BoundedMap } from "../../lib/collections.js";
import type { QueueOwner } from "../../lib/fair-queue.js";

/** Load of a waiting room. */
export interface RoomLoad {
  readonly slots: number;
  /** Mean time for which a request holds a slot. */
  readonly meanHoldMs: number;
  /** Requests that may wait. */
  readonly waitingMax: number;
  /** Maximum wait. */
  readonly queueWaitMs: number;
}

/** The waiting requests of one key. */
interface KeyQueue {
  waiting: number;
  /** When a request of the key last waited for no longer than the target, or none waited. */
  shortWaitAtMs: number;
  isShedding: boolean;
}

/** Shorter waits are negligible compared with the time of an answer, and a busy process cannot measure them exactly. */
const targetMinMs = 100;
/**
 * Target wait as a share of the time for which a request holds a slot: accepted requests then take 1.5 times as long
 * (REL-5).
 */
const targetShare = 1 / 2;
/** Within a shorter interval, a permanent queue cannot be distinguished from a burst. */
const intervalMinMs = 1_000;
/** Target and interval are at most this share of the maximum wait, so that overload is noticed before requests reach it. */
const queueWaitShare = 1 / 3;
/** Bounds of the Retry-After before it is randomized. */
const retryAfterMinMs = 1_000;
const retryAfterMaxMs = 24_000;
/** The Retry-After is increased by up to this share, in steps, so that clients do not return at the same time. */
const retrySpread = 1 / 4;
const retrySteps = 8;
/** Maximum number of keys whose queues are observed. */
const keysMax = 10_000;

/**
 * Load shedding by controlled delay (CoDel), for each key. A burst may fill the queue. When even the shortest wait of a
 * key's requests was above the target for an interval, its queue only adds delay: from then on a new request of the key is
 * rejected, unless it would start within the target. One request of each key may always wait. The shedding ends when no
 * request has had to wait for a second.
 */
export class LoadShedding {
  #queues = new BoundedMap<string, KeyQueue>(keysMax);
  /** Keys with waiting requests. */
  #waitingKeys = 0;
  /** Whether the queue of a key is observed. */
  isActive = false;
  /** Time since which a slot has been free and no request has waited; null while requests wait. */
  #idleSinceMs: number | null = null;
  /** When the last rejected client is expected to return, on the monotonic clock. */
  #returnAtMs = Number.NEGATIVE_INFINITY;
  #rejections = 0;

  /** A request begins to wait. */
  joined(owner: QueueOwner, nowMs: number): void {
    if (this.#idleSinceMs !== null && nowMs - this.#idleSinceMs >= intervalMinMs) this.#recover();
    this.#idleSinceMs = null;
    const name = nameOf(owner);
    const queue = this.#queues.get(name) ?? { waiting: 0, shortWaitAtMs: nowMs, isShedding: false };
    if (queue.waiting === 0) {
      this.#waitingKeys += 1;
      queue.shortWaitAtMs = nowMs;
    }
    queue.waiting += 1;
    this.#queues.set(name, queue);
    this.isActive = true;
  }

  /** A request stops waiting. `waitMs` null: it got no slot. */
  left(owner: QueueOwner, waitMs: number | null, load: RoomLoad, nowMs: number): void {
    const queue = this.#queues.get(nameOf(owner));
    if (queue === undefined || queue.waiting === 0) return;
    if (waitMs !== null && waitMs <= targetMsOf(load)) queue.shortWaitAtMs = nowMs;
    queue.waiting -= 1;
    if (queue.waiting === 0) this.#waitingKeys -= 1;
  }

  /** Whether a new request of the key is rejected. */
  rejects(owner: QueueOwner, load: RoomLoad, nowMs: number): boolean {
    const queue = this.#queues.get(nameOf(owner));
    if (queue === undefined || queue.waiting === 0) return false;
    queue.isShedding ||= nowMs - queue.shortWaitAtMs >= intervalMsOf(load);
    return queue.isShedding && queue.waiting >= this.#placesOf(load);
  }

  /**
   * Time after which a rejected client should retry, 1 to 30 s: the estimated time in which slots become free for the
   * waiting requests and for the clients that were rejected before it. Randomized, so that clients do not return at the same
   * time.
   */
  retryAfterMs(waiting: number, { slots, meanHoldMs }: RoomLoad, nowMs: number): number {
    const slotEveryMs = meanHoldMs / Math.max(1, slots);
    const drainedAtMs = nowMs + slotEveryMs * (waiting + 1);
    this.#returnAtMs = Math.min(nowMs + retryAfterMaxMs, Math.max(drainedAtMs, this.#returnAtMs + slotEveryMs));
    const spread = 1 + ((this.#rejections++ % retrySteps) / retrySteps) * retrySpread;
    return Math.ceil(Math.max(retryAfterMinMs, this.#returnAtMs - nowMs) * spread);
  }

  /**
   * A slot is free and no request waits. Under overload this can also be the case for a moment, when many slots become free
   * at the same time.
   */
  idle(nowMs: number): void {
    this.#idleSinceMs ??= nowMs;
  }

  #recover(): void {
    this.#queues = new BoundedMap(keysMax);
    this.#waitingKeys = 0;
  }

  /** Requests of one key that get a slot within the target. At least 1, so that its slots are never unused. */
  #placesOf(load: RoomLoad): number {
    const all = (load.slots * targetMsOf(load)) / load.meanHoldMs;
    return Math.max(1, Math.floor(all / Math.max(1, this.#waitingKeys)));
  }
}

function targetMsOf({ meanHoldMs, queueWaitMs }: RoomLoad): number {
  return Math.min(Math.max(targetMinMs, meanHoldMs * targetShare), queueWaitMs * queueWaitShare);
}

/** The time in which a full queue drains: a burst that fits into the queue is over by then. */
function intervalMsOf({ slots, meanHoldMs, waitingMax, queueWaitMs }: RoomLoad): number {
  const drainMs = (waitingMax * meanHoldMs) / Math.max(1, slots);
  return Math.min(Math.max(intervalMinMs, drainMs), queueWaitMs * queueWaitShare);
}

function nameOf({ account, keyId }: QueueOwner): string {
  return `${account} ${keyId ?? ""}`;
}
