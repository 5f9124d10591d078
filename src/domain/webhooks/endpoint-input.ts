import { checkInteger, checkLength, checkOneOf, quote, refuse } from "../call/field-checks.js";
import { type EventType, eventTypes } from "../events/event.js";
import type { EndpointRecord } from "./endpoint-store.js";

/** Input of a new endpoint. */
export interface NewEndpoint {
  /** Empty: the caller's own. */
  readonly account: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly description: string;
  /** Null means `enabled`. */
  readonly status: string | null;
  /** Null means 8. */
  readonly maxInFlight: number | null;
}

/** Absent fields keep their values. */
export interface EndpointChange {
  readonly url?: string | undefined;
  readonly events?: readonly string[] | undefined;
  readonly description?: string | undefined;
  readonly status?: string | undefined;
  readonly maxInFlight?: number | undefined;
}

/** Fields that a user sets. */
export type EndpointChoices = Pick<EndpointRecord, "url" | "events" | "description" | "status" | "maxInFlight">;

const descriptionCharsMax = 256;
const maxInFlightDefault = 8;
const maxInFlightMax = 64;
const overlapDefaultMs = 86_400_000;
const overlapMaxMs = 7 * 86_400_000;

const controlCharacter = /\p{Cc}/u;
/** Form of ids; a malformed one needs no look-up. */
const endpointIdForm = /^we_[0-9A-Za-z]{24}$/;
const statuses: readonly EndpointRecord["status"][] = ["enabled", "disabled"];

/** Throws ServiceError naming the field at fault. Only the sender can judge the URL: see `refusalOf`. */
export function checkNewEndpoint({ url, events, description, status, maxInFlight }: NewEndpoint): EndpointChoices {
  return {
    url,
    events: checkEvents(events),
    description: checkDescription(description),
    status: checkStatus(status ?? "enabled"),
    maxInFlight: checkMaxInFlight(maxInFlight ?? maxInFlightDefault),
  };
}

/** The same for a change. Throws ServiceError naming the field at fault. */
export function checkEndpointChange(change: EndpointChange): Partial<EndpointChoices> {
  const { url, events, description, status, maxInFlight } = change;
  return {
    ...(url === undefined ? {} : { url }),
    ...(events === undefined ? {} : { events: checkEvents(events) }),
    ...(description === undefined ? {} : { description: checkDescription(description) }),
    ...(status === undefined ? {} : { status: checkStatus(status) }),
    ...(maxInFlight === undefined ? {} : { maxInFlight: checkMaxInFlight(maxInFlight) }),
  };
}

export function isEndpointId(text: string): boolean {
  return endpointIdForm.test(text);
}

/** Overlap of a replaced secret; null means 24 h. Throws ServiceError outside 0 s to 7 days. */
export function checkOverlap(overlapMs: number | null): number {
  const chosenMs = overlapMs ?? overlapDefaultMs;
  if (chosenMs < 0) refuse("integer_below_min_value", "overlap", "'overlap' must be 0 s or more.");
  if (chosenMs > overlapMaxMs) refuse("integer_above_max_value", "overlap", "'overlap' must be 7 days or less.");
  return chosenMs;
}

/** Checks an event type. Throws ServiceError naming `param`. */
export function checkEventType(type: string, param: string): EventType {
  const known = eventTypes.find((each) => each === type);
  return known ?? refuse("invalid_value", param, `'${param}' must be ${allTypes()}, but is ${quote(type)}.`);
}

function checkEvents(events: readonly string[]): readonly EventType[] {
  const { length } = events;
  if (length === 0) refuseEvents(`must name at least one of ${allTypes()}.`);
  if (length > eventTypes.length) refuseEvents(`may have at most ${eventTypes.length} items, but has ${length}.`);
  const known = events.map((type) => checkEventType(type, "events"));
  const twice = known.find((type, i) => known.indexOf(type) !== i);
  if (twice !== undefined) refuseEvents(`has '${twice}' twice.`);
  return known;
}

function refuseEvents(sentence: string): never {
  refuse("invalid_value", "events", `'events' ${sentence}`);
}

function allTypes(): string {
  return eventTypes.map((type) => `'${type}'`).join(", ");
}

function checkDescription(description: string): string {
  checkLength(description, "description", descriptionCharsMax);
  if (controlCharacter.test(description)) {
    refuse("invalid_value", "description", "'description' holds a control character.");
  }
  return description;
}

function checkStatus(status: string): EndpointRecord["status"] {
  checkOneOf(status, "status", statuses);
  return status === "disabled" ? "disabled" : "enabled";
}

function checkMaxInFlight(count: number): number {
  checkInteger(count, "max_in_flight", 1, maxInFlightMax);
  return count;
}
