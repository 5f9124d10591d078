import type { ServiceLimits } from "../../contract/limits.js";
import type { Operation, operations } from "../../contract/operations.js";
import { version } from "../../contract/version.js";
import type { IdSource, Logger } from "../../domain/call/ports.js";
import type { Core } from "../../domain/core.js";
import type { UsageQueries } from "../../domain/metering/usage-queries.js";
import type { StoredResponses } from "../../domain/responses/stored-responses.js";
import type { NewEndpoint } from "../../domain/webhooks/endpoint-store.js";
import type { ShownEndpoint, WebhookEndpoints } from "../../domain/webhooks/endpoints.js";
import { allModels, createJsonReader, decodeId, type OperationHandler } from "../http/api.js";
import type { BodyDeps } from "../http/body.js";
import { type JsonObject, missingField } from "../http/json-object.js";
import { type KeepAlive, streamAnswer } from "../http/stream.js";
import { completionFields, completionFrames, completionJson, readCompletion } from "./completions.js";
import { embeddingFields, readEmbedding, writeEmbeddings } from "./embeddings.js";
import { createModelListWriter, modelToJson } from "./model-list.js";
import { chatFields, readChat } from "./read-chat.js";
import { rankingJson, readRerank, rerankFields } from "./rerank.js";
import { answerResponse } from "./responses/answer-response.js";
import { responseFields, translateResponse } from "./responses/read-response.js";
import { createStoredResponseHandlers, readEarlierItems } from "./responses/stored-responses.js";
import { readUsageQuery, usagePageJson } from "./usage.js";
import { chatCompletionJson, chatFrames } from "./write-chat.js";

type WithRest = { [Name in Operation]: (typeof operations)[Name] extends { rest: object } ? Name : never }[Operation];

/** Name of an operation that REST serves. */
export type RestOperation = WithRest | "get_version";

export interface HandlerDeps extends BodyDeps {
  readonly core: Core;
  readonly usage: Pick<UsageQueries, "query">;
  readonly webhookEndpoints: Pick<WebhookEndpoints, "create" | "list" | "get" | "remove">;
  /** Null: no responses are stored. */
  readonly storedResponses: StoredResponses | null;
  readonly ids: IdSource;
  readonly limits: ServiceLimits;
  readonly log: Logger;
  readonly keepAlive: KeepAlive;
}

/** The handlers of all REST operations. */
export function createHandlers(deps: HandlerDeps): Readonly<Record<RestOperation, OperationHandler>> {
  const { core, usage, webhookEndpoints, storedResponses, keepAlive } = deps;
  const readRequest = createJsonReader(deps);
  const stored = createStoredResponseHandlers(storedResponses);
  const writeModels = createModelListWriter();

  return {
    async create_chat_completion(call, exchange) {
      const request = readRequest(call, exchange, readChat, chatFields);
      const { params, stream, includeUsage } = request instanceof Promise ? await request : request;
      if (stream) {
        const { head, items } = await core.streamChatCompletion(params, call.ctx);
        exchange.report(head);
        await streamAnswer(call, exchange, items, chatFrames(includeUsage), keepAlive);
      } else {
        const { head, body } = await core.createChatCompletion(params, call.ctx);
        exchange.report(head);
        exchange.json(200, chatCompletionJson(body));
      }
    },

    async create_response(call, exchange) {
      const body = await readRequest(call, exchange, (json) => json, responseFields);
      const earlier = storedResponses === null ? null : await readEarlierItems(storedResponses, body, call.ctx);
      await answerResponse(deps, call, exchange, translateResponse(body, earlier));
    },

    async create_completion(call, exchange) {
      const { params, stream, includeUsage } = await readRequest(call, exchange, readCompletion, completionFields);
      if (stream) {
        const { head, items } = await core.streamCompletion(params, call.ctx);
        exchange.report(head);
        await streamAnswer(call, exchange, items, completionFrames(includeUsage), keepAlive);
      } else {
        const { head, body } = await core.createCompletion(params, call.ctx);
        exchange.report(head);
        exchange.json(200, completionJson(body));
      }
    },

    async create_embeddings(call, exchange) {
      const { params, encoding } = await readRequest(call, exchange, readEmbedding, embeddingFields);
      const { head, body } = await core.createEmbeddings(params, call.ctx);
      exchange.report(head);
      await writeEmbeddings(call, exchange, body, encoding);
    },

    async rerank(call, exchange) {
      const { head, body } = await core.rerank(await readRequest(call, exchange, readRerank, rerankFields), call.ctx);
      exchange.report(head);
      exchange.json(200, rankingJson(body));
    },

    get_response: (call, exchange, rawId) => stored.get(call, exchange, decodeId(rawId)),
    delete_response: (call, exchange, rawId) => stored.delete(call, exchange, decodeId(rawId)),
    list_response_input_items: (call, exchange, rawId) => stored.list(call, exchange, decodeId(rawId)),

    async list_models(call, exchange) {
      exchange.json(200, writeModels(await allModels(core, call)));
    },

    async get_model(call, exchange, rawId) {
      exchange.json(200, modelToJson(await core.getModel(decodeId(rawId), call.ctx)));
    },

    async get_usage(call, exchange) {
      const page = await usage.query(call.ctx, readUsageQuery(exchange.req.url ?? ""));
      exchange.json(200, await usagePageJson(page));
    },

    async create_webhook_endpoint(call, exchange) {
      const input = await readRequest(call, exchange, readWebhook, webhookFields);
      const { endpoint, secret } = await webhookEndpoints.create(input, call.ctx);
      exchange.json(200, { ...webhookJson(endpoint), secret });
    },

    async list_webhook_endpoints(call, exchange) {
      const endpoints = await webhookEndpoints.list("", call.ctx);
      exchange.json(200, { object: "list", data: endpoints.map(webhookJson) });
    },

    async get_webhook_endpoint(call, exchange, rawId) {
      const endpoint = await webhookEndpoints.get({ id: decodeId(rawId), account: "" }, call.ctx);
      exchange.json(200, webhookJson(endpoint));
    },

    async delete_webhook_endpoint(call, exchange, rawId) {
      const id = decodeId(rawId);
      await webhookEndpoints.remove({ id, account: "" }, call.ctx);
      exchange.json(200, { id, object: "webhook_endpoint", deleted: true });
    },

    async get_version(_call, exchange) {
      exchange.json(200, { version });
    },
  };
}

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

/** Reads the body of `POST /v1/webhooks`; the domain checks its values. Throws ServiceError. */
export function readWebhook(body: JsonObject): NewEndpoint {
  const url = body.requiredString("url");
  const events = body.strings("events") ?? missingField("events");
  return {
    account: "",
    url,
    events,
    description: body.string("description") ?? "",
    status: body.string("status") ?? null,
    maxInFlight: body.int32("max_in_flight") ?? null,
  };
}

/** Fields of the body that are known. */
export const webhookFields: ReadonlySet<string> = new Set(["url", "events", "description", "status", "max_in_flight"]);
