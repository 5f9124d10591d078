import { version } from "../../contract/version.js";
import { signStandardWebhook, signWebhook } from "../../lib/webhook-signature.js";

export interface AttemptFacts {
  /** Those that sign, in clear, the newest first. Not empty. */
  readonly secrets: readonly string[];
  readonly eventId: string;
  readonly deliveryId: string;
  /** 1 for the first attempt. */
  readonly attemptNumber: number;
  readonly body: string;
  /** When the attempt begins. */
  readonly atMs: number;
}

/** What is sent with every attempt beside the body: two ways to verify it, and what it is (WH-15, WH-18). */
export function attemptHeaders(facts: AttemptFacts): Readonly<Record<string, string>> {
  const { secrets, eventId, deliveryId, attemptNumber, body, atMs } = facts;
  const timestampS = Math.floor(atMs / 1_000);
  return {
    "content-type": "application/json",
    "user-agent": `UnifiedInference/${version}`,
    "service-signature": signWebhook({ secrets, timestampS, body }),
    "service-delivery-id": deliveryId,
    "service-attempt": String(attemptNumber),
    "webhook-id": eventId,
    "webhook-timestamp": String(timestampS),
    "webhook-signature": signStandardWebhook({ secrets, id: eventId, timestampS, body }),
  };
}
