import type { ShownEndpoint } from "../../domain/webhooks/endpoints.js";

/** A webhook endpoint as REST shows it (WH-2). Times are ISO 8601 in UTC. */
export function webhookJson(endpoint: ShownEndpoint): object {
  return {
    id: endpoint.id,
    object: "webhook_endpoint",
    url: endpoint.url,
    events: endpoint.events,
    description: endpoint.description,
    status: endpoint.status,
    disabled_reason: endpoint.disabledReason,
    max_in_flight: endpoint.maxInFlight,
    secret_hint: endpoint.secretHint,
    previous_secret_expires_at: timeOrNull(endpoint.previousSecretExpiresAtMs),
    last_success_at: timeOrNull(endpoint.lastSuccessAtMs),
    last_failure_at: timeOrNull(endpoint.lastFailureAtMs),
    failing_since: timeOrNull(endpoint.failingSinceMs),
    created_at: timeOrNull(endpoint.createdAtMs),
    updated_at: timeOrNull(endpoint.updatedAtMs),
  };
}

function timeOrNull(atMs: number | null): string | null {
  return atMs === null ? null : new Date(atMs).toISOString();
}
