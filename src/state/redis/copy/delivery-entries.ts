import type { CopiedDelivery, CopiedEvent } from "../../../domain/service/state-copy.js";
import { deliveredKeptMs, failedKeptMs } from "../../../domain/webhooks/delivery-queue.js";
import { keySpace } from "../connection/key-space.js";
import { attemptText, letterOfState } from "../deliveries/encoding.js";
import { type Entry, hashEntry, zsetEntry } from "./entry.js";
import { packMessage } from "./message-pack.js";

/**
 * Converts times of records from ms to µs, so that no two are equal and their order is the order of the calls: they are
 * positions in lists. If a time is earlier than the one before, because the clock was set back, counting starts again at
 * it.
 */
class Microseconds {
  #lastMs = 0;
  #lastUs = 0;

  next(atMs: number): number {
    const us = atMs * 1_000;
    this.#lastUs = atMs < this.#lastMs ? us : Math.max(us, this.#lastUs + 1);
    this.#lastMs = atMs;
    return this.#lastUs;
  }
}

/** Creates the keys of deliveries, which only scripts derive otherwise. */
function keysOf(account: string) {
  const { format } = keySpace.shardOf(account);
  const stem = format.slice(0, -"format".length);
  return (name: string): string => stem + name;
}

/** Events that wait for their deliveries. */
export function* eventEntries(all: Iterable<CopiedEvent>): Iterable<Entry> {
  const times = new Microseconds();
  const turns = new Map<string, number>();
  for (const { id, account, type, atMs, endpointIds, body } of all) {
    const key = keysOf(account);
    const atUs = times.next(atMs);
    yield hashEntry(key("events"), id, packMessage([type, atUs, endpointIds, body]));
    yield zsetEntry(key(`waiting:${account}`), id, atUs);
    if (!turns.has(account)) turns.set(account, atUs);
  }
  for (const [account, atUs] of turns) yield zsetEntry(keysOf(account)("event_turns"), account, atUs);
}

/** Queue of an endpoint. */
interface Queue {
  readonly account: string;
  /** When the next claim examines the queue; 0: its endpoint is disabled or deleted, so the claim ends its deliveries. */
  turnUs: number;
}

/** Entries of deliveries. None is claimed: a delivery with an attempt in progress is due as before the attempt. */
export function* deliveryEntries(all: Iterable<CopiedDelivery>): Iterable<Entry> {
  const times = new Microseconds();
  const queues = new Map<string, Queue>();
  const openCounts = new Map<string, number>();
  for (const delivery of all) {
    const { id, account, endpointId, eventType, dueAtMs, isEndpointEnabled } = delivery;
    const key = keysOf(account);
    const createdUs = times.next(delivery.createdAtMs);
    // Deliveries that are due in the same millisecond are claimed in the order of their creation.
    const dueUs = dueAtMs === null ? 0 : dueAtMs * 1_000 + (createdUs % 1_000);
    yield hashEntry(key("deliveries"), id, recordOf(delivery, createdUs, dueUs));
    const list = listOf(delivery);
    yield zsetEntry(key(`${list}:${eventType}`), id, createdUs);
    yield zsetEntry(key(`${list}:${eventType}:${endpointId}`), id, createdUs);
    yield* bodyEntries(delivery);
    if (dueAtMs === null) {
      yield endEntry(delivery);
      continue;
    }
    const name = `${account}:${endpointId}`;
    yield zsetEntry(key(`q:${name}`), id, dueUs);
    openCounts.set(account, (openCounts.get(account) ?? 0) + 1);
    const queue = queues.get(name) ?? { account, turnUs: isEndpointEnabled ? dueUs : 0 };
    queue.turnUs = Math.min(queue.turnUs, dueUs);
    queues.set(name, queue);
  }
  for (const [name, { account, turnUs }] of queues) yield zsetEntry(keysOf(account)("turns"), name, turnUs);
  for (const [account, open] of openCounts) yield hashEntry(keysOf(account)("open_counts"), account, String(open));
}

function listOf({ dueAtMs, state }: CopiedDelivery): string {
  if (dueAtMs !== null) return "open";
  return state === "delivered" ? "delivered" : "failed";
}

/** The head of a delivery and its attempts, as `key-space` describes them. */
function recordOf(delivery: CopiedDelivery, createdUs: number, dueUs: number): Buffer {
  const { account, eventId, eventType, endpointId, attemptsMade, retriesUsed, by, reason, endedAtMs } = delivery;
  const head = packMessage([
    ...[letterOfState[delivery.state], account, eventId, eventType, endpointId, createdUs, dueUs],
    ...[attemptsMade, retriesUsed, Number(delivery.isManual), by, Number(delivery.isSingle), reason ?? ""],
    ...[endedAtMs ?? 0, delivery.replayId ?? "", Number(delivery.isPurged), ""],
  ]);
  const attempts = delivery.attempts.map((attempt) =>
    packMessage([attempt.nextAttemptAtMs ?? 0, attemptText(attempt)]),
  );
  return Buffer.concat([head, ...attempts]);
}

/**
 * Entry with the time at which the payload of an ended delivery is removed, or its record if the payload is removed
 * already.
 */
function endEntry({ id, account, state, endedAtMs, isPurged }: CopiedDelivery): Entry {
  const key = keysOf(account);
  const isDelivered = state === "delivered";
  const atMs = endedAtMs ?? 0;
  if (!isPurged) return zsetEntry(key(isDelivered ? "kept:delivered" : "kept:failed"), id, atMs);
  return zsetEntry(key("purged"), id, atMs + 2 * (isDelivered ? deliveredKeptMs : failedKeptMs));
}

function* bodyEntries(delivery: CopiedDelivery): Iterable<Entry> {
  const { id, account, eventId, body, sharers, isFirstSharer, isPurged } = delivery;
  if (isPurged) return;
  const key = keysOf(account);
  if (sharers <= 1) yield hashEntry(key("bodies"), id, body);
  else if (isFirstSharer) {
    yield hashEntry(key("bodies"), eventId, body);
    yield hashEntry(key("body_holders"), eventId, String(sharers));
  }
}
