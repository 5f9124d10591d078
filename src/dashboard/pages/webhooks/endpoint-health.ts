import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";

export interface EndpointHealth {
  readonly word: "enabled" | "failing" | "disabled";
  readonly tone: "good" | "bad" | "plain";
  /** Why, where the word does not say it; else empty. */
  readonly reason: string;
}

/** From so many failures in a row on the service calls an endpoint failing. */
const failingAfterFailures = 10;

export function endpointHealth(endpoint: WebhookEndpointJson): EndpointHealth {
  const { status, disabledReason, failuresInRow = "0" } = endpoint;
  if (status === "disabled") {
    const isFailing = disabledReason === "failing";
    const reason = isFailing ? "by the service, after days without a success" : "by hand";
    return { word: "disabled", tone: isFailing ? "bad" : "plain", reason };
  }
  if (Number(failuresInRow) >= failingAfterFailures) return { word: "failing", tone: "bad", reason: "" };
  return { word: "enabled", tone: "good", reason: "" };
}
