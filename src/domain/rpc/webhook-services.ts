import { create } from "@bufbuild/protobuf";
import { durationMs, type Timestamp, timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import {
  type Attempt as AttemptMessage,
  AttemptSchema,
  type Delivery as DeliveryMessage,
  DeliverySchema,
} from "../../../gen/unified/webhook/v1/delivery_pb.js";
import {
  DeliveryService,
  GetDeliveryResponseSchema,
  ListDeliveriesResponseSchema,
  ReplayDeliveriesResponseSchema,
  RetryDeliveryResponseSchema,
} from "../../../gen/unified/webhook/v1/delivery_service_pb.js";
import {
  type WebhookEndpoint as EndpointMessage,
  WebhookEndpointSchema,
} from "../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import {
  CreateWebhookEndpointResponseSchema,
  DeleteWebhookEndpointResponseSchema,
  GetWebhookEndpointResponseSchema,
  ListWebhookEndpointsResponseSchema,
  RotateWebhookSecretResponseSchema,
  SendTestEventResponseSchema,
  UpdateWebhookEndpointResponseSchema,
  WebhookEndpointService,
} from "../../../gen/unified/webhook/v1/webhook_endpoint_service_pb.js";
import { ServiceError } from "../call/service-error.js";
import type { Deliveries } from "../webhooks/deliveries.js";
import type { Attempt, Delivery } from "../webhooks/delivery.js";
import type { ShownEndpoint, WebhookEndpoints } from "../webhooks/endpoints.js";
import { optionalTime, type RpcService, rpcService } from "./rpc-service.js";

export type WebhookEndpointAdmin = Pick<
  WebhookEndpoints,
  "create" | "list" | "get" | "update" | "remove" | "rotate" | "sendTestEvent"
>;

/** `unified.webhook.v1.WebhookEndpointService`: an account's own endpoints by its keys, any by the administrator. */
export function createWebhookEndpointService(endpoints: WebhookEndpointAdmin): RpcService {
  return rpcService(WebhookEndpointService, {
    async createWebhookEndpoint({ webhookEndpoint }, ctx) {
      if (webhookEndpoint === undefined) {
        throw new ServiceError("missing_required_parameter", "'webhook_endpoint' is required.", {
          param: "webhook_endpoint",
        });
      }
      const { account, url, events, description, status, maxInFlight } = webhookEndpoint;
      const input = {
        account,
        url,
        events,
        description,
        status: status || null,
        maxInFlight: maxInFlight === 0 ? null : maxInFlight,
      };
      const { endpoint, secret } = await endpoints.create(input, ctx);
      return create(CreateWebhookEndpointResponseSchema, { webhookEndpoint: endpointMessage(endpoint), secret });
    },
    async listWebhookEndpoints({ account }, ctx) {
      const all = await endpoints.list(account, ctx);
      return create(ListWebhookEndpointsResponseSchema, { webhookEndpoints: all.map(endpointMessage) });
    },
    async getWebhookEndpoint(target, ctx) {
      const endpoint = await endpoints.get(target, ctx);
      return create(GetWebhookEndpointResponseSchema, { webhookEndpoint: endpointMessage(endpoint) });
    },
    async updateWebhookEndpoint({ id, account, url, events, description, status, maxInFlight }, ctx) {
      const change = { url, events: events?.values, description, status, maxInFlight };
      const endpoint = await endpoints.update({ id, account }, change, ctx);
      return create(UpdateWebhookEndpointResponseSchema, { webhookEndpoint: endpointMessage(endpoint) });
    },
    async deleteWebhookEndpoint(target, ctx) {
      await endpoints.remove(target, ctx);
      return create(DeleteWebhookEndpointResponseSchema);
    },
    async rotateWebhookSecret({ id, account, overlap }, ctx) {
      const overlapMs = overlap === undefined ? null : durationMs(overlap);
      const { endpoint, secret, oldExpiresAtMs } = await endpoints.rotate({ id, account }, overlapMs, ctx);
      return create(RotateWebhookSecretResponseSchema, {
        webhookEndpoint: endpointMessage(endpoint),
        secret,
        oldExpiresAt: timestampFromMs(oldExpiresAtMs),
      });
    },
    async sendTestEvent({ id, account, eventType }, ctx) {
      const { isDelivered, result, payload } = await endpoints.sendTestEvent({ id, account }, eventType, ctx);
      return create(SendTestEventResponseSchema, {
        delivered: isDelivered,
        status: result.status ?? 0,
        error: result.error ?? "",
        latencyMs: BigInt(Math.round(result.latencyMs)),
        response: result.response ?? "",
        payload,
      });
    },
  });
}

function endpointMessage(endpoint: ShownEndpoint): EndpointMessage {
  const { id, account, url, events, description, status, maxInFlight, secretHint } = endpoint;
  return create(WebhookEndpointSchema, {
    id,
    account,
    url,
    events: [...events],
    description,
    status,
    disabledReason: endpoint.disabledReason ?? "",
    maxInFlight,
    secretHint,
    ...optionalTime("previousSecretExpiresAt", endpoint.previousSecretExpiresAtMs),
    ...optionalTime("lastSuccessAt", endpoint.lastSuccessAtMs),
    ...optionalTime("lastFailureAt", endpoint.lastFailureAtMs),
    ...optionalTime("failingSince", endpoint.failingSinceMs),
    failuresInRow: BigInt(endpoint.failuresInRow),
    createdAt: timestampFromMs(endpoint.createdAtMs),
    updatedAt: timestampFromMs(endpoint.updatedAtMs),
  });
}

export type DeliveryAdmin = Pick<Deliveries, "list" | "get" | "retry" | "replay">;

/** `unified.webhook.v1.DeliveryService`: by the administrator, who was checked when the call was opened. */
export function createDeliveryService(deliveries: DeliveryAdmin): RpcService {
  return rpcService(DeliveryService, {
    async listDeliveries({ createdFrom, createdBefore, ...question }) {
      const { deliveries: found, nextPageToken } = await deliveries.list({
        ...question,
        fromMs: instantOf(createdFrom),
        toMs: instantOf(createdBefore),
      });
      return create(ListDeliveriesResponseSchema, { deliveries: found.map(listedMessage), nextPageToken });
    },
    async getDelivery({ id }) {
      const { delivery, payload } = await deliveries.get(id);
      return create(GetDeliveryResponseSchema, { delivery: deliveryMessage(delivery), payload: payload ?? "" });
    },
    async retryDelivery(order, ctx) {
      return create(RetryDeliveryResponseSchema, { delivery: deliveryMessage(await deliveries.retry(order, ctx)) });
    },
    async replayDeliveries({ createdFrom, createdBefore, ...wish }, ctx) {
      const { replayId, toMs, progress } = await deliveries.replay(
        { ...wish, fromMs: instantOf(createdFrom), toMs: instantOf(createdBefore) },
        ctx,
      );
      return create(ReplayDeliveriesResponseSchema, { ...progress, replayId, createdBefore: timestampFromMs(toMs) });
    },
  });
}

function instantOf(timestamp: Timestamp | undefined): number | null {
  return timestamp === undefined ? null : timestampMs(timestamp);
}

/** Receivers' responses have up to 40 KiB per delivery: a page of a thousand deliveries would have 40 MiB. */
function listedMessage(delivery: Delivery): DeliveryMessage {
  return deliveryMessage({
    ...delivery,
    attempts: delivery.attempts.map((attempt) => ({ ...attempt, response: null })),
  });
}

function deliveryMessage(delivery: Delivery): DeliveryMessage {
  const { id, account, eventId, eventType, endpointId, state, reason, attemptsMade } = delivery;
  return create(DeliverySchema, {
    id,
    account,
    eventId,
    eventType,
    endpointId,
    state,
    reason: reason ?? "",
    attemptsMade,
    ...optionalTime("nextAttemptAt", delivery.nextAttemptAtMs),
    createdAt: timestampFromMs(delivery.createdAtMs),
    attempts: delivery.attempts.map(attemptMessage),
    purged: delivery.isPurged,
    replayId: delivery.replayId ?? "",
  });
}

function attemptMessage(attempt: Attempt): AttemptMessage {
  const { number, trigger, by, startedAtMs, latencyMs, status, error, ip, response, retryAfter } = attempt;
  return create(AttemptSchema, {
    number,
    trigger,
    by,
    startedAt: timestampFromMs(startedAtMs),
    latencyMs: BigInt(Math.round(latencyMs)),
    status: status ?? 0,
    error: error ?? "",
    ip: ip ?? "",
    response: response ?? "",
    retryAfter: retryAfter ?? "",
    ...optionalTime("nextAttemptAt", attempt.nextAttemptAtMs),
  });
}
