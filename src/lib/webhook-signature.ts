import { createHmac, timingSafeEqual } from "node:crypto";

/** Maximum distance of a signature's time from now, in both directions. */
const defaultToleranceS = 300;

export interface SignWebhookOptions {
  /** Secrets in the form `whsec_…`, newest first. Not empty. */
  readonly secrets: readonly string[];
  /** Time of this attempt, Unix time in whole seconds. */
  readonly timestampS: number;
  /** The exact body of the request. */
  readonly body: string | Uint8Array;
}

export interface SignStandardWebhookOptions extends SignWebhookOptions {
  /** Id of the event: the value of `webhook-id`. */
  readonly id: string;
}

export interface VerifyWebhookOptions {
  /** The endpoint's secret (`whsec_…`), or several of which one must match. */
  readonly secret: string | readonly string[];
  /** Value of the header `Service-Signature`; a missing one is rejected. */
  readonly header: string | readonly string[] | null | undefined;
  /** The received body, before it is parsed. */
  readonly body: string | Uint8Array;
  /** Unix time in seconds; default: now. */
  readonly nowS?: number;
  /** Tolerance in seconds; default: 300. */
  readonly toleranceS?: number;
}

export type WebhookRefusal =
  /** The header is missing, empty or has no `t`. */
  | "missing_timestamp"
  /** `t` is not a number. */
  | "malformed_timestamp"
  /** The header has no `v1`. */
  | "missing_signature"
  /** The signature is older than the tolerance. */
  | "timestamp_too_old"
  /** The signature's time is further in the future than the tolerance. */
  | "timestamp_in_future"
  /** No `v1` matches this body, this `t` and one of the secrets. */
  | "signature_mismatch";

export type WebhookVerification =
  | { readonly valid: true; readonly timestampS: number }
  | { readonly valid: false; readonly reason: WebhookRefusal };

/**
 * Value of `Service-Signature`: `t=<timestamp>` and one `v1` for each secret (WH-15, WH-16). The key of a `v1` is the UTF-8
 * bytes of the whole secret.
 */
export function signWebhook({ secrets, timestampS, body }: SignWebhookOptions): string {
  const signatures = secrets.map((secret) => `v1=${signatureOf(secret, String(timestampS), body)}`);
  return [`t=${timestampS}`, ...signatures].join(",");
}

/**
 * Value of `webhook-signature` in the form of Standard Webhooks: one `v1` for each secret, separated by spaces. The key is
 * the decoded base64 after `whsec_`.
 */
export function signStandardWebhook({ secrets, id, timestampS, body }: SignStandardWebhookOptions): string {
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    return `v1,${createHmac("sha256", key).update(`${id}.${timestampS}.`).update(body).digest("base64")}`;
  });
  return signatures.join(" ");
}

/**
 * Whether a delivery was signed with the secret within the tolerance (WH-17), in constant time. Unknown fields of the header
 * are ignored; of several `v1` one match is enough. Never throws for values of the sender; throws TypeError for an empty
 * secret and for a parsed body.
 */
export function verifyWebhook(options: VerifyWebhookOptions): WebhookVerification {
  const { header, body, nowS = Date.now() / 1000, toleranceS = defaultToleranceS } = options;
  const secrets = requireSecrets(options.secret);
  if (typeof body !== "string" && !(body instanceof Uint8Array)) {
    throw new TypeError("body must be the text or the bytes that were received: verify before you parse them");
  }
  const { timestamp, signatures } = parseHeader(header);
  if (timestamp === undefined) return refused("missing_timestamp");
  if (!/^[0-9]+$/.test(timestamp)) return refused("malformed_timestamp");
  if (signatures.length === 0) return refused("missing_signature");

  const timestampS = Number(timestamp);
  const ageS = Math.floor(nowS) - timestampS;
  if (!(Math.abs(ageS) <= toleranceS)) return refused(ageS > 0 ? "timestamp_too_old" : "timestamp_in_future");

  const expected = secrets.map((secret) => signatureOf(secret, timestamp, body));
  const matches = expected.flatMap((one) => signatures.filter((signature) => isSameText(one, signature)));
  return matches.length > 0 ? { valid: true, timestampS } : refused("signature_mismatch");
}

function requireSecrets(secret: string | readonly string[]): readonly string[] {
  const secrets = [secret].flat();
  if (secrets.length === 0 || secrets.some((one) => !one)) {
    throw new TypeError("secret is empty: use the secret that was shown when the endpoint was created");
  }
  return secrets;
}

function parseHeader(header: VerifyWebhookOptions["header"]) {
  const signatures: string[] = [];
  let timestamp: string | undefined;
  for (const field of String(header ?? "").split(",")) {
    if (field.startsWith("t=")) timestamp = field.slice("t=".length);
    else if (field.startsWith("v1=")) signatures.push(field.slice("v1=".length));
  }
  return { timestamp, signatures };
}

/** HMAC-SHA256 in lower-case hex. */
function signatureOf(secret: string, timestamp: string, body: string | Uint8Array): string {
  return createHmac("sha256", secret).update(`${timestamp}.`).update(body).digest("hex");
}

function isSameText(expected: string, given: string): boolean {
  const [a, b] = [Buffer.from(expected), Buffer.from(given)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function refused(reason: WebhookRefusal): WebhookVerification {
  return { valid: false, reason };
}
