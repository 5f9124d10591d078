/** How scripts write what they say of deliveries, and what they are told of attempts. */
import { invariant } from "../../../domain/call/service-error.js";
import type { EventType } from "../../../domain/events/event.js";
import type {
  Attempt,
  AttemptResult,
  Delivery,
  DeliveryFailure,
  DeliveryState,
} from "../../../domain/webhooks/delivery.js";
import type { Claim, FinishRequest } from "../../../domain/webhooks/delivery-queue.js";
import { type EndpointHealth, freshHealth } from "../../../domain/webhooks/endpoint-store.js";

/** Kept, but for `a`, which only answers and questions have. */
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

type ClaimAnswer = readonly [
  id: string,
  account: string,
  endpointId: string,
  eventId: string,
  eventType: EventType,
  attemptNumber: number,
  retriesUsed: number,
  isManual: number,
  by: string,
  isSingle: number,
  dueAtMs: number,
];

/** Claims of one call of `claim.lua`, which have their fence in common. Bodies are in the order of the claims. */
export function decodeClaims(fence: string, json: string, bodies: readonly string[]): readonly Claim[] {
  return (JSON.parse(json) as readonly ClaimAnswer[]).map((claim, i) => {
    const [deliveryId, account, endpointId, eventId, eventType, attemptNumber, retriesUsed, ...rest] = claim;
    const [isManual, by, isSingle, dueAtMs] = rest;
    const body = bodies[i];
    invariant(body !== undefined, "what is open has its payload");
    return {
      deliveryId,
      account,
      endpointId,
      eventId,
      eventType,
      body,
      fence: Number(fence),
      attemptNumber,
      retriesUsed,
      trigger: isManual === 1 ? "manual" : "schedule",
      by,
      isSingle: isSingle === 1,
      dueAtMs,
    };
  });
}

/** An item of `finish.lua`. */
export function encodeFinish({ claim, result, outcome }: FinishRequest): readonly unknown[] {
  const detail =
    outcome.state === "awaiting_retry" ? outcome.delayMs : outcome.state === "permanently_failed" ? outcome.reason : 0;
  const attempt: KeptAttempt = [
    claim.attemptNumber,
    claim.trigger === "manual" ? 1 : 0,
    claim.by,
    result.startedAtMs,
    result.latencyMs,
    result.status,
    result.error,
    result.ip,
    result.response,
    result.retryAfter,
  ];
  return [claim.deliveryId, String(claim.fence), letterOfState[outcome.state], detail, JSON.stringify(attempt)];
}

/** Kept as JSON, new fields at the end. When the next one was due stands beside it, for only the store knows that. */
type KeptAttempt = readonly [
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
];

/** What `finish.lua` says of each item; null: the claim was lost. Those that are alike are the same object. */
export function decodeHealths(json: string): readonly (EndpointHealth | null)[] {
  const known = new Map<unknown, EndpointHealth | null>([[0, null]]);
  return (JSON.parse(json) as readonly (string | 0)[]).map((answer) => {
    const health = known.get(answer) ?? (answer === 0 ? null : parseHealth(answer));
    known.set(answer, health);
    return health;
  });
}

/** Null: there was no attempt yet. */
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

/** A delivery as `find-deliveries.lua` tells it. */
export function decodeDelivery(json: string): Delivery {
  const [id, letter, account, eventId, eventType, endpointId, createdAtMs, dueAtMs, attemptsMade, reason, ...rest] =
    JSON.parse(json) as DeliveryAnswer;
  const [isPurged, replayId, ...attempts] = rest;
  const state = stateOfLetter.get(letter);
  invariant(state !== undefined, "a delivery is kept in a state that there is");
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
    attempts.push(decodeAttempt(String(flat[i + 1]), Number(flat[i])));
  }
  return attempts;
}

function decodeAttempt(json: string, nextAtMs: number): Attempt {
  const [number, isManual, by, startedAtMs, latencyMs, status, error, ip, response, retryAfter] = JSON.parse(
    json,
  ) as KeptAttempt;
  const trigger = isManual === 1 ? "manual" : "schedule";
  const result = { startedAtMs, latencyMs, status, error, ip, response, retryAfter };
  return { number, trigger, by, ...result, nextAttemptAtMs: nextAtMs || null };
}
