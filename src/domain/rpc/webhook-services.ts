import { durationMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { DeliveryService } from "../../../gen/unified/webhook/v1/delivery_service_pb.js";
import { WebhookEndpointService } from "../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";
import { type FairShares, runInShare } from "../call/fair-shares.js";
import { refuse } from "../call/service-error.js";
import type { Deliveries } from "../webhooks/deliveries.js";
import type { Attempt, Delivery } from "../webhooks/delivery.js";
import { recordedHeaders } from "../webhooks/delivery-attempts.js";
import type { ShownEndpoint, WebhookEndpoints } from "../webhooks/endpoints.js";
import { instantOf, type RpcService, rpcService, timestampOf } from "./rpc-service.js";

/**
 * `unified.webhook.v1.WebhookEndpointService`: keys manage the endpoints of their own account, the administrator those of
 * any account.
 */
export function createWebhookEndpointService(endpoints: WebhookEndpoints): RpcService {
  return rpcService(WebhookEndpointService, {
    async createWebhookEndpoint({ webhookEndpoint }, ctx) {
      if (webhookEndpoint === undefined) {
        return refuse("missing_required_parameter", "webhook_endpoint", "'webhook_endpoint' is required.");
      }
      const { status, maxInFlight, ...input } = webhookEndpoint;
      const created = { ...input, status: status || null, maxInFlight: maxInFlight || null };
      const { endpoint, secret } = await endpoints.create(created, ctx);
      return { webhookEndpoint: endpointFields(endpoint), secret };
    },
    async listWebhookEndpoints({ account }, ctx) {
      return { webhookEndpoints: (await endpoints.list(account, ctx)).map(endpointFields) };
    },
    async getWebhookEndpoint(target, ctx) {
      return { webhookEndpoint: endpointFields(await endpoints.get(target, ctx)) };
    },
    async updateWebhookEndpoint({ id, account, events, ...change }, ctx) {
      const endpoint = await endpoints.update({ id, account }, { ...change, events: events?.values }, ctx);
      return { webhookEndpoint: endpointFields(endpoint) };
    },
    async deleteWebhookEndpoint(target, ctx) {
      await endpoints.remove(target, ctx);
      return {};
    },
    async rotateWebhookSecret({ overlap, ...target }, ctx) {
      const overlapMs = overlap === undefined ? null : durationMs(overlap);
      const { endpoint, secret, oldExpiresAtMs } = await endpoints.rotate(target, overlapMs, ctx);
      return { webhookEndpoint: endpointFields(endpoint), secret, oldExpiresAt: timestampFromMs(oldExpiresAtMs) };
    },
    async sendTestEvent({ eventType, ...target }, ctx) {
      const { isDelivered, result, payload } = await endpoints.sendTestEvent(target, eventType, ctx);
      return {
        delivered: isDelivered,
        status: result.status ?? 0,
        error: result.error ?? "",
        latencyMs: BigInt(Math.round(result.latencyMs)),
        response: result.response ?? "",
        payload,
      };
    },
  });
}

function endpointFields(endpoint: ShownEndpoint) {
  return {
    ...endpoint,
    events: [...endpoint.events],
    disabledReason: endpoint.disabledReason ?? "",
    previousSecretExpiresAt: timestampOf(endpoint.previousSecretExpiresAtMs),
    lastSuccessAt: timestampOf(endpoint.lastSuccessAtMs),
    lastFailureAt: timestampOf(endpoint.lastFailureAtMs),
    failingSince: timestampOf(endpoint.failingSinceMs),
    failuresInRow: BigInt(endpoint.failuresInRow),
    createdAt: timestampFromMs(endpoint.createdAtMs),
    updatedAt: timestampFromMs(endpoint.updatedAtMs),
  };
}

/** `unified.webhook.v1.DeliveryService`; `Core.open` has authorized the administrator. */
export function createDeliveryService(deliveries: Deliveries, { lists }: Pick<FairShares, "lists">): RpcService {
  return rpcService(DeliveryService, {
    async listDeliveries({ createdFrom, createdBefore, ...filter }, ctx) {
      const question = { ...filter, fromMs: instantOf(createdFrom), toMs: instantOf(createdBefore) };
      const list = () => deliveries.list(question);
      const { deliveries: found, nextPageToken } = await runInShare(lists, ctx, ctx.signal, list);
      return { deliveries: found.map((delivery) => deliveryFields(delivery, false)), nextPageToken };
    },
    async getDelivery({ id }) {
      const { delivery, payload } = await deliveries.get(id);
      return { delivery: deliveryFields(delivery, true), payload: payload ?? "" };
    },
    async retryDelivery(order, ctx) {
      return { delivery: deliveryFields(await deliveries.retry(order, ctx), true) };
    },
    async replayDeliveries({ createdFrom, createdBefore, ...selection }, ctx) {
      const wish = { ...selection, fromMs: instantOf(createdFrom), toMs: instantOf(createdBefore) };
      const { replayId, toMs, progress } = await deliveries.replay(wish, ctx);
      return { ...progress, replayId, createdBefore: timestampFromMs(toMs) };
    },
  });
}

/**
 * `isWhole`: attempts contain the receivers' responses and the requests' headers. Lists omit them: they take up to 50 KiB
 * per delivery, which would be 50 MiB for a page of a thousand.
 */
function deliveryFields(delivery: Delivery, isWhole: boolean) {
  return {
    ...delivery,
    reason: delivery.reason ?? "",
    nextAttemptAt: timestampOf(delivery.nextAttemptAtMs),
    createdAt: timestampFromMs(delivery.createdAtMs),
    attempts: delivery.attempts.map((attempt) => ({
      ...attemptFields(attempt),
      ...(isWhole ? { response: attempt.response ?? "", headers: headersOf(delivery, attempt) } : {}),
    })),
    purged: delivery.isPurged,
    replayId: delivery.replayId ?? "",
  };
}

function headersOf({ id, eventId }: Delivery, { number, signatures }: Attempt): Readonly<Record<string, string>> {
  if (signatures === undefined) return {};
  return recordedHeaders({ eventId, deliveryId: id, attemptNumber: number }, signatures);
}

function attemptFields(attempt: Attempt) {
  return {
    number: attempt.number,
    trigger: attempt.trigger,
    by: attempt.by,
    startedAt: timestampFromMs(attempt.startedAtMs),
    latencyMs: BigInt(Math.round(attempt.latencyMs)),
    status: attempt.status ?? 0,
    error: attempt.error ?? "",
    ip: attempt.ip ?? "",
    response: "",
    retryAfter: attempt.retryAfter ?? "",
    nextAttemptAt: timestampOf(attempt.nextAttemptAtMs),
  };
}
