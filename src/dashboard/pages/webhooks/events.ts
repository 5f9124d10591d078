/** Webhook events, delivery outcomes and endpoint health as text. */
import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";

/** The event types in the order of the documentation, with descriptions. */
export const eventTypes = {
  "request.completed": "a request completed",
  "request.failed": "a request failed",
  "usage.threshold_reached": "usage reached a percentage of a threshold",
} as const;

export type EventType = keyof typeof eventTypes;

export const eventTypeNames = Object.keys(eventTypes) as EventType[];

const errors: Readonly<Record<string, string>> = {
  dns: "DNS lookup failed",
  connect: "Connection failed",
  tls: "TLS handshake failed",
  timeout: "Timed out",
  reset: "Connection reset",
  blocked_address: "Address not allowed",
  bad_response: "Invalid HTTP response",
  secret_unreadable: "Signing secret unreadable: rotate it",
};

/** The result of an attempt: an HTTP status, or why there is none. */
export function outcomeOf({ status = 0, error = "" }: { readonly status?: number; readonly error?: string }): string {
  return error === "" ? `HTTP ${status}` : (errors[error] ?? error.replaceAll("_", " "));
}

/** Properties of the dialogs that act on an endpoint. */
export interface EndpointDialogProps {
  readonly endpoint: WebhookEndpointJson;
  /** Called when the endpoint has changed. */
  readonly onDone: () => void;
  readonly onClose: () => void;
}

export interface EndpointHealth {
  readonly status: "Enabled" | "Failing" | "Disabled";
  readonly tone: "good" | "bad" | "plain";
  /** Why the endpoint is disabled; empty if it is enabled. */
  readonly reason: string;
}

/** Consecutive failures after which the service calls an endpoint failing. */
const failingAfterFailures = 10;

export function endpointHealth(endpoint: WebhookEndpointJson): EndpointHealth {
  const { status, disabledReason, failuresInRow = "0" } = endpoint;
  if (status === "disabled") {
    const isFailing = disabledReason === "failing";
    const reason = isFailing ? "automatically, after days of failures" : "manually";
    return { status: "Disabled", tone: isFailing ? "bad" : "plain", reason };
  }
  if (Number(failuresInRow) >= failingAfterFailures) return { status: "Failing", tone: "bad", reason: "" };
  return { status: "Enabled", tone: "good", reason: "" };
}
