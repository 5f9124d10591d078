import type { RandomBytes } from "../access/api-key.js";
import { checkInteger, checkLength, checkOneOf, quote, refuse, ServiceError } from "../call/service-error.js";
import { type EventType, eventTypes } from "../events/events.js";

/** A stored endpoint. */
export interface EndpointRecord {
  /** `we_` and 24 characters. */
  readonly id: string;
  readonly account: string;
  readonly url: string;
  readonly description: string;
  /** Not empty, no duplicates. */
  readonly events: readonly EventType[];
  readonly status: "enabled" | "disabled";
  /** Disabled by a user, or by the service because nothing was delivered for days (WH-38); null while enabled. */
  readonly disabledReason: "by_hand" | "failing" | null;
  /** Maximum concurrent deliveries, 1 to 64. */
  readonly maxInFlight: number;
  /** 1 to 3 secrets, newest first. All but the newest expire. */
  readonly secrets: readonly EndpointSecret[];
  /** Incremented by every change; `replace` rejects a change of an older version. */
  readonly version: number;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

export interface EndpointSecret {
  /** Encrypted for the endpoint's id (USE-16). */
  readonly sealed: string;
  /** The last four characters of the secret. */
  readonly hint: string;
  /** Store time of its expiry; null for the newest. */
  readonly expiresAtMs: number | null;
}

/** Delivery statistics of an endpoint, updated in the same step as each attempt. */
export interface EndpointHealth {
  readonly lastSuccessAtMs: number | null;
  readonly lastFailureAtMs: number | null;
  /** Time of the first failure after the last success; null without one. */
  readonly failingSinceMs: number | null;
  /** Consecutive failures. */
  readonly failuresInRow: number;
  /** Permanent failures since the last success. */
  readonly permanentlyFailed: number;
}

export const freshHealth: EndpointHealth = Object.freeze({
  lastSuccessAtMs: null,
  lastFailureAtMs: null,
  failingSinceMs: null,
  failuresInRow: 0,
  permanentlyFailed: 0,
});

export interface KeptEndpoint {
  readonly record: EndpointRecord;
  readonly health: EndpointHealth;
}

/**
 * Port of the endpoint store. It uses the same store as the ledger, so that a settlement creates deliveries for exactly the
 * enabled endpoints (WH-14). Rejects with `storage_unavailable`.
 */
export interface EndpointStore {
  /** False if the account has `max` endpoints. Rejects with ServiceError `conflict` for a taken id. */
  insert(endpoint: EndpointRecord, max: number): Promise<boolean>;
  /** Replaces the previous version only. Disabling stops new claims (WH-30); enabling resets the health. */
  replace(endpoint: EndpointRecord): Promise<"replaced" | "changed" | "unknown">;
  find(account: string, id: string): Promise<KeptEndpoint | null>;
  /** The oldest first. */
  list(account: string): Promise<readonly KeptEndpoint[]>;
  /** False for an unknown endpoint. Stops new claims (WH-30). */
  remove(account: string, id: string): Promise<boolean>;
  /** False only if the account certainly has no endpoint, so that no event needs to be drafted. Synchronous. */
  mayHaveAny(account: string): boolean;
}

const secretBytes = 32;
/** Maximum replaced secrets that still sign. */
const expiringMax = 2;

/** `whsec_` and the base64 of 32 random bytes (WH-5). Shown once and stored encrypted. */
export function newWebhookSecret(random: RandomBytes): string {
  return `whsec_${Buffer.from(random(secretBytes)).toString("base64")}`;
}

/** Secrets that still sign, newest first. */
export function activeSecrets(secrets: readonly EndpointSecret[], nowMs: number): readonly EndpointSecret[] {
  return secrets.filter(({ expiresAtMs }) => expiresAtMs === null || expiresAtMs > nowMs);
}

/**
 * Decrypted signing secrets, newest first. `open` returns null for a secret that it cannot decrypt. Returns null if the
 * newest secret cannot be decrypted. Older secrets that cannot be decrypted are skipped, so that a rotation takes effect
 * immediately.
 */
export function signingSecrets(
  secrets: readonly EndpointSecret[],
  nowMs: number,
  open: (sealed: string) => string | null,
): readonly string[] | null {
  const [newest = null, ...others] = activeSecrets(secrets, nowMs).map(({ sealed }) => open(sealed));
  return newest === null ? null : [newest, ...others.filter((secret) => secret !== null)];
}

/** Expiry of the last replaced secret; null when only the newest signs. */
export function lastExpiryOf(secrets: readonly EndpointSecret[], nowMs: number): number | null {
  const times = activeSecrets(secrets, nowMs).flatMap(({ expiresAtMs }) => (expiresAtMs === null ? [] : [expiresAtMs]));
  return times.length === 0 ? null : Math.max(...times);
}

/**
 * The secrets after a rotation to `next`: the previous secret also signs for `overlapMs`, or no longer if `overlapMs` is 0
 * (WH-7). Throws ServiceError `conflict` for a third expiring secret.
 */
export function rotatedSecrets(
  secrets: readonly EndpointSecret[],
  next: Omit<EndpointSecret, "expiresAtMs">,
  overlapMs: number,
  nowMs: number,
): readonly EndpointSecret[] {
  const [current, ...others] = secrets;
  const expiring = activeSecrets(others, nowMs);
  const newest: EndpointSecret = { ...next, expiresAtMs: null };
  if (current === undefined || overlapMs === 0) return [newest, ...expiring];
  if (expiring.length >= expiringMax) throw tooMany(expiring);
  return [newest, { ...current, expiresAtMs: nowMs + overlapMs }, ...expiring];
}

function tooMany(expiring: readonly EndpointSecret[]): ServiceError {
  const nextMs = Math.min(...expiring.map(({ expiresAtMs }) => expiresAtMs ?? Number.POSITIVE_INFINITY));
  const next = new Date(nextMs).toISOString();
  const sentence = `${expiring.length} replaced secrets still sign, the maximum. The next expires at ${next}; an overlap of 0 s is always possible.`;
  return new ServiceError("conflict", sentence, { shouldRetry: false });
}

/** Input of a new endpoint. */
export interface NewEndpoint {
  /** Empty: the caller's own account. */
  readonly account: string;
  readonly url: string;
  readonly events: readonly string[];
  readonly description: string;
  /** Null means `enabled`. */
  readonly status: string | null;
  /** Null means the default, 8. */
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

const controlCharacter = /\p{Cc}/u;
/** Form of endpoint ids. A malformed id is rejected without a look-up. */
const endpointIdForm = /^we_[0-9A-Za-z]{24}$/;
const statuses: readonly EndpointRecord["status"][] = ["enabled", "disabled"];

/**
 * Checks a new endpoint. Throws ServiceError naming the field at fault. The URL is not checked here but by
 * `WebhookSender.refusalOf`.
 */
export function checkNewEndpoint({ url, events, description, status, maxInFlight }: NewEndpoint): EndpointChoices {
  return {
    url,
    events: checkEvents(events),
    description: checkDescription(description),
    status: checkStatus(status ?? "enabled"),
    maxInFlight: checkMaxInFlight(maxInFlight ?? maxInFlightDefault),
  };
}

/** Checks a change of an endpoint. Throws ServiceError naming the field at fault. */
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
  if (!controlCharacter.test(description)) return description;
  return refuse("invalid_value", "description", "'description' must not contain a control character.");
}

function checkStatus(status: string): EndpointRecord["status"] {
  checkOneOf(status, "status", statuses);
  return status === "disabled" ? "disabled" : "enabled";
}

function checkMaxInFlight(count: number): number {
  checkInteger(count, "max_in_flight", 1, maxInFlightMax);
  return count;
}
