import { invariant } from "../../../domain/call/service-error.js";
import type { EventType } from "../../../domain/events/events.js";
import type {
  Attempt,
  AttemptResult,
  AttemptSignatures,
  Delivery,
  DeliveryFailure,
  DeliveryState,
} from "../../../domain/webhooks/delivery.js";
import { type EndpointHealth, freshHealth } from "../../../domain/webhooks/endpoint-store.js";

/** Letters of states. They are a stored format, except `a`, which occurs only in arguments and answers of scripts. */
export const letterOfState: Readonly<Record<DeliveryState, string>> = {
  pending: "p",
  delivery_attempted: "a",
  awaiting_retry: "r",
  delivered: "d",
  permanently_failed: "f",
};

const stateOfLetter = new Map(
  Object.entries(letterOfState).map(([state, letter]) => [letter, state as DeliveryState] as const),
);

/**
 * An attempt as stored JSON, new fields at the end. The time of the next attempt is stored separately, because only the
 * store determines it.
 */
type StoredAttempt = readonly [
  number: number,
  isManual: number,
  by: string,
  startedAtMs: number,
  latencyMs: number,
  status: number | null,
  error: AttemptResult["error"],
  ip: string | null,
  response: string | null,
  retryAfter: string | null,
  /** Absent in attempts of an earlier version. */
  signatures?: AttemptSignatures | null,
];

/** JSON of a StoredAttempt. */
export function attemptText(attempt: Omit<Attempt, "nextAttemptAtMs">): string {
  const { number, trigger, by, startedAtMs, latencyMs, status, error, ip, response, retryAfter, signatures } = attempt;
  const isManual = trigger === "manual" ? 1 : 0;
  const result = [startedAtMs, latencyMs, status, error, ip, response, retryAfter] as const;
  return JSON.stringify([number, isManual, by, ...result, signatures ?? null] satisfies StoredAttempt);
}

/** Health in the form that `finish.lua` stores. The health of an endpoint without attempts is not stored. */
export function healthText(health: EndpointHealth): string {
  const { lastSuccessAtMs, lastFailureAtMs, failingSinceMs, failuresInRow, permanentlyFailed } = health;
  return [lastSuccessAtMs ?? 0, lastFailureAtMs ?? 0, failingSinceMs ?? 0, failuresInRow, permanentlyFailed].join(",");
}

/** `text` is null before the first attempt. */
export function parseHealth(text: string | null): EndpointHealth {
  if (text === null) return freshHealth;
  const [success = 0, failure = 0, failingSince = 0, failuresInRow = 0, permanentlyFailed = 0] = text
    .split(",")
    .map(Number);
  return {
    lastSuccessAtMs: success || null,
    lastFailureAtMs: failure || null,
    failingSinceMs: failingSince || null,
    failuresInRow,
    permanentlyFailed,
  };
}

type DeliveryAnswer = readonly [
  id: string,
  state: string,
  account: string,
  eventId: string,
  eventType: EventType,
  endpointId: string,
  createdAtMs: number,
  dueAtMs: number,
  attemptsMade: number,
  reason: DeliveryFailure | "",
  isPurged: number,
  replayId: string,
  ...attempts: (number | string)[],
];

/** A delivery as an answer of `find-deliveries.lua`. */
export function decodeDelivery(json: string): Delivery {
  const [id, letter, account, eventId, eventType, endpointId, createdAtMs, dueAtMs, attemptsMade, reason, ...rest] =
    JSON.parse(json) as DeliveryAnswer;
  const [isPurged, replayId, ...attempts] = rest;
  const state = stateOfLetter.get(letter);
  invariant(state !== undefined, "a stored delivery has a known state");
  return {
    id,
    account,
    eventId,
    eventType,
    endpointId,
    state,
    reason: reason || null,
    createdAtMs,
    nextAttemptAtMs: dueAtMs || null,
    attemptsMade,
    attempts: decodeAttempts(attempts),
    isPurged: isPurged === 1,
    replayId: replayId || null,
  };
}

function decodeAttempts(flat: readonly (number | string)[]): readonly Attempt[] {
  const attempts: Attempt[] = [];
  for (let i = 0; i < flat.length; i += 2) {
    const stored = JSON.parse(String(flat[i + 1])) as StoredAttempt;
    const [number, isManual, by, startedAtMs, latencyMs, status, error, ip, response, retryAfter, signatures] = stored;
    const trigger = isManual === 1 ? "manual" : "schedule";
    const result = { startedAtMs, latencyMs, status, error, ip, response, retryAfter };
    const signed = signatures === undefined || signatures === null ? {} : { signatures };
    attempts.push({ number, trigger, by, ...result, ...signed, nextAttemptAtMs: Number(flat[i]) || null });
  }
  return attempts;
}
