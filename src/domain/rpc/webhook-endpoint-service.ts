import { create } from "@bufbuild/protobuf";
import { durationMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import {
  type WebhookEndpoint as Message,
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
import type { ShownEndpoint, WebhookEndpoints } from "../webhooks/endpoints.js";
import { optionalTime } from "./optional-time.js";
import { type RpcService, rpcService } from "./rpc-service.js";

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
      return create(CreateWebhookEndpointResponseSchema, { webhookEndpoint: toMessage(endpoint), secret });
    },
    async listWebhookEndpoints({ account }, ctx) {
      const all = await endpoints.list(account, ctx);
      return create(ListWebhookEndpointsResponseSchema, { webhookEndpoints: all.map(toMessage) });
    },
    async getWebhookEndpoint(target, ctx) {
      const endpoint = await endpoints.get(target, ctx);
      return create(GetWebhookEndpointResponseSchema, { webhookEndpoint: toMessage(endpoint) });
    },
    async updateWebhookEndpoint({ id, account, url, events, description, status, maxInFlight }, ctx) {
      const change = { url, events: events?.values, description, status, maxInFlight };
      const endpoint = await endpoints.update({ id, account }, change, ctx);
      return create(UpdateWebhookEndpointResponseSchema, { webhookEndpoint: toMessage(endpoint) });
    },
    async deleteWebhookEndpoint(target, ctx) {
      await endpoints.remove(target, ctx);
      return create(DeleteWebhookEndpointResponseSchema);
    },
    async rotateWebhookSecret({ id, account, overlap }, ctx) {
      const overlapMs = overlap === undefined ? null : durationMs(overlap);
      const { endpoint, secret, oldExpiresAtMs } = await endpoints.rotate({ id, account }, overlapMs, ctx);
      return create(RotateWebhookSecretResponseSchema, {
        webhookEndpoint: toMessage(endpoint),
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

function toMessage(endpoint: ShownEndpoint): Message {
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
