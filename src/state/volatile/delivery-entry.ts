import type { EventDraft, EventType } from "../../domain/events/event.js";
import {
  type Attempt,
  type AttemptResult,
  attemptsKept,
  type Delivery,
  deliveryId,
} from "../../domain/webhooks/delivery.js";
import type { Claim } from "../../domain/webhooks/delivery-queue.js";

/** A delivery as it lies in memory; the queue changes it in place. */
export interface DeliveryEntry {
  readonly id: string;
  /** Place in the order of making. */
  readonly number: number;
  readonly account: string;
  readonly eventId: string;
  readonly eventType: EventType;
  readonly endpointId: string;
  readonly createdAtMs: number;
  /** Null when it was purged. */
  body: string | null;
  /** Where it stands when nobody holds it. */
  state: "pending" | "awaiting_retry" | "delivered" | "permanently_failed";
  reason: Delivery["reason"];
  /** While somebody holds it, too: when it was due. */
  dueAtMs: number;
  /** Meaningless while it is open. */
  endedAtMs: number;
  /** Until when somebody holds it; null: nobody does. */
  leasedUntilMs: number | null;
  /** Raised with each claim and with each end of one, so that only the last holder can tell an end, and once. */
  fence: number;
  retriesUsed: number;
  trigger: Attempt["trigger"];
  by: string;
  isSingle: boolean;
  attemptsMade: number;
  attempts: readonly Attempt[];
  replayId: string | null;
}

export interface NewEntry {
  readonly event: EventDraft;
  readonly account: string;
  readonly endpointId: string;
  readonly number: number;
  readonly createdAtMs: number;
  readonly dueAtMs: number;
}

export function newEntry({ event, account, endpointId, number, createdAtMs, dueAtMs }: NewEntry): DeliveryEntry {
  return {
    id: deliveryId(event.id, endpointId),
    number,
    account,
    eventId: event.id,
    eventType: event.type,
    endpointId,
    createdAtMs,
    body: event.body,
    state: "pending",
    reason: null,
    dueAtMs,
    endedAtMs: 0,
    leasedUntilMs: null,
    fence: 0,
    retriesUsed: 0,
    trigger: "schedule",
    by: "",
    isSingle: false,
    attemptsMade: 0,
    attempts: [],
    replayId: null,
  };
}

export function isEnded({ state }: DeliveryEntry): boolean {
  return state === "delivered" || state === "permanently_failed";
}

/** As administrators see it. */
export function shownDelivery(entry: DeliveryEntry): Delivery {
  const { id, account, eventId, eventType, endpointId, reason, createdAtMs, attemptsMade, attempts, replayId } = entry;
  return {
    id,
    account,
    eventId,
    eventType,
    endpointId,
    state: shownState(entry),
    reason,
    createdAtMs,
    nextAttemptAtMs: isEnded(entry) || entry.leasedUntilMs !== null ? null : entry.dueAtMs,
    attemptsMade,
    attempts,
    isPurged: entry.body === null,
    replayId,
  };
}

export function shownState({ state, leasedUntilMs }: DeliveryEntry): Delivery["state"] {
  return leasedUntilMs === null ? state : "delivery_attempted";
}

/** What whoever holds it now gets to know. */
export function claimOf(entry: DeliveryEntry): Claim {
  const { id, account, endpointId, eventId, eventType, body, fence, retriesUsed, trigger, by, isSingle, dueAtMs } =
    entry;
  return {
    deliveryId: id,
    account,
    endpointId,
    eventId,
    eventType,
    body: body ?? "",
    fence,
    attemptNumber: entry.attemptsMade + 1,
    retriesUsed,
    trigger,
    by,
    isSingle,
    dueAtMs,
  };
}

/** Adds an attempt; whoever asked for it has had theirs (WH-44, WH-46). */
export function noteAttempt(entry: DeliveryEntry, result: AttemptResult, nextAttemptAtMs: number | null): void {
  const { trigger, by } = entry;
  entry.attemptsMade += 1;
  const attempt: Attempt = { ...result, number: entry.attemptsMade, trigger, by, nextAttemptAtMs };
  entry.attempts = [...entry.attempts, attempt].slice(-attemptsKept);
  entry.trigger = "schedule";
  entry.by = "";
  entry.isSingle = false;
}
