import { checkOneOf, refuse } from "../call/field-checks.js";
import { checkAccountName } from "../call/principal.js";
import { type DeliveryState, deliveryStates } from "./delivery.js";
import type { DeliveryFilter } from "./delivery-queue.js";
import { checkEventType, isEndpointId } from "./endpoint-input.js";

/** Filter of a list. Empty and null do not filter. */
export interface DeliveryQuestion {
  readonly account: string;
  readonly state: string;
  readonly endpointId: string;
  readonly eventType: string;
  /** Created at this time or later. */
  readonly fromMs: number | null;
  /** Created before this time. */
  readonly toMs: number | null;
  readonly replayId: string;
}

/** The latest valid Date. */
const instantMax = 8.64e15;
const replayIdForm = /^[A-Za-z0-9_-]{1,64}$/;

/** Throws ServiceError naming the field at fault. */
export function checkDeliveryFilter(question: DeliveryQuestion): DeliveryFilter {
  const { account, state, endpointId, eventType, fromMs, toMs, replayId } = question;
  return {
    account: account === "" ? null : checkAccountName(account),
    state: state === "" ? null : checkState(state),
    endpointId: endpointId === "" ? null : checkEndpointId(endpointId),
    eventType: eventType === "" ? null : checkEventType(eventType, "event_type"),
    fromMs: checkInstant(fromMs, "created_from"),
    toMs: checkInstant(toMs, "created_before"),
    replayId: replayId === "" ? null : checkReplayId(replayId),
  };
}

/** Checks a time; one before 1970 becomes 1970. Throws ServiceError. */
export function checkInstant<T extends number | null>(atMs: T, param: string): T | number {
  if (atMs === null) return atMs;
  if (Number.isSafeInteger(atMs) && Math.abs(atMs) <= instantMax) return Math.max(0, atMs);
  return refuse("invalid_value", param, `'${param}' must be a time.`);
}

/** Throws ServiceError for a malformed endpoint id. */
export function checkEndpointId(id: string): string {
  if (isEndpointId(id)) return id;
  return refuse("invalid_value", "endpoint_id", "'endpoint_id' must be the id of a webhook endpoint (we_…).");
}

/** Throws ServiceError for a malformed replay id. */
export function checkReplayId(id: string): string {
  if (replayIdForm.test(id)) return id;
  return refuse("invalid_value", "replay_id", "'replay_id' must be 1 to 64 of a-z, A-Z, 0-9, _ and -.");
}

function checkState(state: string): DeliveryState | null {
  checkOneOf(state, "state", deliveryStates);
  return deliveryStates.find((each) => each === state) ?? null;
}
