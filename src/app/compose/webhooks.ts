import { randomBytes } from "node:crypto";
import type { Audit } from "../../domain/access/audit.js";
import type { LiveRequests } from "../../domain/call/live-requests.js";
import type { IdSource, Logger } from "../../domain/call/ports.js";
import type { State } from "../../domain/service/state.js";
import { Deliveries } from "../../domain/webhooks/deliveries.js";
import type { WebhookSender } from "../../domain/webhooks/delivery.js";
import { Dispatcher } from "../../domain/webhooks/dispatcher.js";
import { WebhookEndpoints } from "../../domain/webhooks/endpoints.js";
import { createSystemClock } from "../../lib/clock-and-ids.js";
import type { SecretBox } from "../../lib/crypto.js";
import { createWebhookSender } from "../../outbound/webhook-sender.js";
import { WebhookMetrics, type WebhookSources } from "../../telemetry/metrics/webhook-metrics.js";
import type { Config } from "../config/schema.js";
import { webhookLeaseMs } from "../config/webhook-settings.js";
import type { Lifecycle } from "../process/lifecycle.js";

interface WebhooksInput {
  readonly config: Pick<Config, "webhooks">;
  readonly state: State;
  readonly live: LiveRequests;
  readonly secrets: SecretBox;
  readonly audit: Audit;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly lifecycle: Lifecycle;
}

/** Everything that tells receivers what happened. */
export interface Webhooks {
  readonly webhookEndpoints: WebhookEndpoints;
  readonly deliveries: Deliveries;
  /** What the metrics page asks; null: this process sends none. */
  readonly sending: WebhookSources | null;
}

/** Of one process, over all endpoints (WH-37). */
const inFlightMax = 64;

export function composeWebhooks(input: WebhooksInput): Webhooks {
  const { config, state, secrets, audit, ids, lifecycle } = input;
  const { webhooks: settings } = config;
  const { endpoints, deliveries: queue } = state;
  const now = (): number => state.now();
  const sender = createWebhookSender({
    allowHttp: settings.allow_http,
    allowPrivateCidrs: settings.allow_private_cidrs,
    allowPorts: settings.allow_ports,
    dnsServers: settings.dns_servers,
  });
  lifecycle.onClose("webhook connections", () => sender.close());
  const endpointSettings = { endpointsMax: settings.endpoints_max, attemptBudgetMs: settings.attempt_timeout };
  return {
    webhookEndpoints: new WebhookEndpoints({
      endpoints,
      sender,
      secrets,
      audit,
      ids,
      random: randomBytes,
      now,
      settings: endpointSettings,
    }),
    deliveries: new Deliveries({ queue, endpoints, audit, now }),
    sending: settings.deliver ? startSending(input, sender, now) : null,
  };
}

function startSending(
  { config, state, live, secrets, log, lifecycle }: WebhooksInput,
  sender: WebhookSender,
  now: () => number,
): WebhookSources {
  const { attempt_timeout: budgetMs, retry_delays: retryDelaysMs, disable_after: disableAfterMs } = config.webhooks;
  const metrics = new WebhookMetrics();
  const dispatcher = new Dispatcher({
    queue: state.deliveries,
    endpoints: state.endpoints,
    changes: state.changes,
    secrets,
    sender,
    // Its timers are none of a request, so they are not counted among those.
    clock: createSystemClock(),
    now,
    log,
    observer: metrics,
    isServing: () => live.size > 0,
    settings: { budgetMs, retryDelaysMs, leaseMs: webhookLeaseMs, inFlightMax, disableAfterMs },
  });
  lifecycle.onClose("webhooks", () => dispatcher.close());
  return { metrics, backlog: () => state.deliveries.backlog(), inFlight: () => dispatcher.inFlight, now };
}
