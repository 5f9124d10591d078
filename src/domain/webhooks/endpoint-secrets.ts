import type { RandomBytes } from "../access/api-key-format.js";
import { ServiceError } from "../call/service-error.js";
import type { EndpointSecret } from "./endpoint-store.js";

const secretBytes = 32;
const hintChars = 4;
/** Maximum replaced secrets that still sign. */
const expiringMax = 2;

/** `whsec_` and the base64 of 32 random bytes (WH-5). Shown once and stored encrypted. */
export function newWebhookSecret(random: RandomBytes): string {
  return `whsec_${Buffer.from(random(secretBytes)).toString("base64")}`;
}

/** The part of a secret that may be shown later. */
export function hintOf(secret: string): string {
  return secret.slice(-hintChars);
}

/** Secrets that still sign, newest first. */
export function livingSecrets(secrets: readonly EndpointSecret[], nowMs: number): readonly EndpointSecret[] {
  return secrets.filter(({ expiresAtMs }) => expiresAtMs === null || expiresAtMs > nowMs);
}

/**
 * Decrypted signing secrets, newest first. `open` returns null for one that it cannot decrypt. Null if the newest
 * cannot be decrypted; an older one is then skipped, so that a rotation helps at once.
 */
export function signingSecrets(
  secrets: readonly EndpointSecret[],
  nowMs: number,
  open: (sealed: string) => string | null,
): readonly string[] | null {
  const [newest = null, ...others] = livingSecrets(secrets, nowMs).map(({ sealed }) => open(sealed));
  return newest === null ? null : [newest, ...others.filter((secret) => secret !== null)];
}

/** Expiry of the last replaced secret; null when only the newest signs. */
export function lastExpiryOf(secrets: readonly EndpointSecret[], nowMs: number): number | null {
  const times = livingSecrets(secrets, nowMs).flatMap(({ expiresAtMs }) => (expiresAtMs === null ? [] : [expiresAtMs]));
  return times.length === 0 ? null : Math.max(...times);
}

/**
 * The secrets after a rotation to `next`: the previous one signs beside it for `overlapMs`, or not at all when that is
 * 0 (WH-7). Throws ServiceError `conflict` for a third expiring secret.
 */
export function rotatedSecrets(
  secrets: readonly EndpointSecret[],
  next: Omit<EndpointSecret, "expiresAtMs">,
  overlapMs: number,
  nowMs: number,
): readonly EndpointSecret[] {
  const [current, ...others] = secrets;
  const expiring = livingSecrets(others, nowMs);
  const newest: EndpointSecret = { ...next, expiresAtMs: null };
  if (current === undefined || overlapMs === 0) return [newest, ...expiring];
  if (expiring.length >= expiringMax) throw tooMany(expiring);
  return [newest, { ...current, expiresAtMs: nowMs + overlapMs }, ...expiring];
}

function tooMany(expiring: readonly EndpointSecret[]): ServiceError {
  const nextMs = Math.min(...expiring.map(({ expiresAtMs }) => expiresAtMs ?? Number.POSITIVE_INFINITY));
  return new ServiceError(
    "conflict",
    `${expiring.length} secrets that were replaced still sign, which is the most. ` +
      `The next of them expires at ${new Date(nextMs).toISOString()}; an overlap of 0 s is possible before.`,
    { shouldRetry: false },
  );
}
