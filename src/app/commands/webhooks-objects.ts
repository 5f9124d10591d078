import type { Attempt, Delivery } from "../../../gen/unified/webhook/v1/delivery_pb.js";
import type { WebhookEndpoint } from "../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { printable, printableLine } from "../../lib/display-text.js";
import { isoTime, jsonInteger } from "../command-line/cli-values.js";

/** An endpoint as every JSON answer shows it. */
export function toEndpointObject(endpoint: WebhookEndpoint): object {
  return {
    id: endpoint.id,
    object: "webhook_endpoint",
    account: endpoint.account,
    url: endpoint.url,
    events: endpoint.events,
    description: endpoint.description,
    status: endpoint.status,
    disabled_reason: endpoint.disabledReason || null,
    max_in_flight: endpoint.maxInFlight,
    secret_hint: endpoint.secretHint,
    previous_secret_expires_at: isoTime(endpoint.previousSecretExpiresAt),
    last_success_at: isoTime(endpoint.lastSuccessAt),
    last_failure_at: isoTime(endpoint.lastFailureAt),
    failing_since: isoTime(endpoint.failingSince),
    failures_in_row: jsonInteger(endpoint.failuresInRow),
    created_at: isoTime(endpoint.createdAt),
    updated_at: isoTime(endpoint.updatedAt),
  };
}

export function endpointLine(endpoint: WebhookEndpoint): string {
  const { id, account, url, events, status, failingSince } = endpoint;
  const failing = failingSince === undefined ? "" : `  failing since ${isoTime(failingSince)}`;
  return `${id}  ${status.padEnd(8)}  ${account}  ${printableLine(url)}  ${events.join(",")}${failing}`;
}

/** A delivery as every JSON answer shows it. Lists come without what receivers answered, single ones with it. */
export function toDeliveryObject(delivery: Delivery, from: "list" | "single"): object {
  const toObject = from === "list" ? toAttemptObject : toAnsweredAttemptObject;
  return {
    id: delivery.id,
    account: delivery.account,
    event_id: delivery.eventId,
    event_type: delivery.eventType,
    endpoint_id: delivery.endpointId,
    state: delivery.state,
    reason: delivery.reason || null,
    attempts_made: delivery.attemptsMade,
    next_attempt_at: isoTime(delivery.nextAttemptAt),
    created_at: isoTime(delivery.createdAt),
    attempts: delivery.attempts.map(toObject),
    purged: delivery.purged,
    replay_id: delivery.replayId || null,
  };
}

function toAttemptObject(attempt: Attempt): object {
  return {
    number: attempt.number,
    trigger: attempt.trigger,
    by: attempt.by || null,
    started_at: isoTime(attempt.startedAt),
    latency_ms: jsonInteger(attempt.latencyMs),
    status: attempt.status || null,
    error: attempt.error || null,
    ip: attempt.ip || null,
    retry_after: attempt.retryAfter || null,
    next_attempt_at: isoTime(attempt.nextAttemptAt),
  };
}

function toAnsweredAttemptObject(attempt: Attempt): object {
  return { ...toAttemptObject(attempt), response: attempt.status === 0 ? null : attempt.response };
}

/** What it is, where it stands, and how the last attempt went. */
export function deliveryLine(delivery: Delivery): string {
  const { id, eventType, endpointId, state, reason, attemptsMade, nextAttemptAt, createdAt } = delivery;
  const last = delivery.attempts.at(-1);
  const told = [
    reason === "" ? state : `${state} (${reason})`,
    attemptsMade === 0 ? "" : `${attemptsMade} ${attemptsMade === 1 ? "attempt" : "attempts"}`,
    last === undefined ? "" : `last: ${last.error || last.status}`,
    nextAttemptAt === undefined ? "" : `next at ${isoTime(nextAttemptAt)}`,
  ];
  const standing = told.filter((part) => part !== "").join(", ");
  return `${id}  ${isoTime(createdAt)}  ${eventType}  ${endpointId}  ${standing}`;
}

/** One line for each attempt, and what the receiver answered to it below. */
export function attemptText({ number, trigger, startedAt, latencyMs, status, error, response }: Attempt): string {
  const head = `  ${number}  ${isoTime(startedAt)}  ${trigger}  ${error || status} after ${latencyMs} ms`;
  return response === "" ? head : `${head}\n${printable(response).replace(/^/gm, "     ")}`;
}
