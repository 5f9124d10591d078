import { create } from "@bufbuild/protobuf";
import { ListModelsRequestSchema } from "../../../gen/unified/catalog/v1/catalog_service_pb.js";
import type { Model } from "../../../gen/unified/catalog/v1/model_pb.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { version } from "../../contract/version.js";
import type { Core } from "../../domain/core.js";
import type { UsageQuestions } from "../../domain/metering/usage-questions.js";
import type { WebhookEndpoints } from "../../domain/webhooks/endpoints.js";
import type { BodyReader } from "./body-reader.js";
import type { Call } from "./call.js";
import { ChatFrames } from "./chat-frames.js";
import { CompletionFrames } from "./completion-frames.js";
import { parseJsonBody } from "./json-body.js";
import type { JsonObject } from "./json-object.js";
import { checkMediaType } from "./media-type.js";
import { chatFields, readChat } from "./read-chat.js";
import { completionFields, readCompletion } from "./read-completion.js";
import { embeddingFields, readEmbedding } from "./read-embedding.js";
import { readUsageQuery } from "./read-usage-query.js";
import { readWebhook, webhookFields } from "./read-webhook.js";
import { decodeId, type RestOperation } from "./router.js";
import { type KeepAlive, streamAnswer } from "./stream-answer.js";
import type { UnknownFields } from "./unknown-fields.js";
import { chatCompletionJson } from "./write-chat.js";
import { completionJson } from "./write-completion.js";
import { writeEmbeddings } from "./write-embedding.js";
import { modelToJson } from "./write-model.js";
import { usagePageJson } from "./write-usage-page.js";
import { webhookJson } from "./write-webhook.js";

/** What REST offers of webhook endpoints. */
export type RestWebhooks = Pick<WebhookEndpoints, "create" | "list" | "get" | "remove">;

export interface HandlerDeps {
  readonly core: Core;
  readonly usage: Pick<UsageQuestions, "query">;
  readonly webhookEndpoints: RestWebhooks;
  readonly limits: ServiceLimits;
  readonly bodies: BodyReader;
  readonly unknownFields: UnknownFields;
  readonly keepAlive: KeepAlive;
}

/** Serves one operation: reads the message, asks the core, writes the answer. `rawId` is the end of the path. */
export type Handler = (call: Call, rawId: string) => Promise<void>;

/** All operations of this door. */
export function createHandlers(deps: HandlerDeps): Readonly<Record<RestOperation, Handler>> {
  const { core, usage, webhookEndpoints, keepAlive } = deps;
  return {
    async create_chat_completion(call) {
      const request = readRequest(deps, call, readChat, chatFields);
      const { params, stream, includeUsage } = request instanceof Promise ? await request : request;
      if (stream) {
        const { head, items } = await core.streamChatCompletion(params, call.ctx);
        call.exchange.tellLimits(head);
        await streamAnswer(call, items, new ChatFrames(includeUsage), keepAlive);
      } else {
        const { head, body } = await core.createChatCompletion(params, call.ctx);
        call.exchange.tellLimits(head);
        call.exchange.json(200, chatCompletionJson(body));
      }
    },

    async create_completion(call) {
      const { params, stream, includeUsage } = await readRequest(deps, call, readCompletion, completionFields);
      if (stream) {
        const { head, items } = await core.streamCompletion(params, call.ctx);
        call.exchange.tellLimits(head);
        await streamAnswer(call, items, new CompletionFrames(includeUsage), keepAlive);
      } else {
        const { head, body } = await core.createCompletion(params, call.ctx);
        call.exchange.tellLimits(head);
        call.exchange.json(200, completionJson(body));
      }
    },

    async create_embeddings(call) {
      const { params, encoding } = await readRequest(deps, call, readEmbedding, embeddingFields);
      const { head, body } = await core.createEmbeddings(params, call.ctx);
      call.exchange.tellLimits(head);
      await writeEmbeddings(call, body, encoding);
    },

    async list_models(call) {
      const models = await allModels(core, call);
      call.exchange.json(200, { object: "list", data: models.map(modelToJson) });
    },

    async get_model(call, rawId) {
      call.exchange.json(200, modelToJson(await core.getModel(decodeId(rawId), call.ctx)));
    },

    async get_usage(call) {
      const page = await usage.query(call.ctx.principal, readUsageQuery(call.exchange.req.url ?? ""));
      call.exchange.json(200, usagePageJson(page));
    },

    async create_webhook_endpoint(call) {
      const input = await readRequest(deps, call, readWebhook, webhookFields);
      const { endpoint, secret } = await webhookEndpoints.create(input, call.ctx);
      call.exchange.json(200, { ...webhookJson(endpoint), secret });
    },

    async list_webhook_endpoints(call) {
      const endpoints = await webhookEndpoints.list("", call.ctx);
      call.exchange.json(200, { object: "list", data: endpoints.map(webhookJson) });
    },

    async get_webhook_endpoint(call, rawId) {
      const endpoint = await webhookEndpoints.get({ id: decodeId(rawId), account: "" }, call.ctx);
      call.exchange.json(200, webhookJson(endpoint));
    },

    async delete_webhook_endpoint(call, rawId) {
      const id = decodeId(rawId);
      await webhookEndpoints.remove({ id, account: "" }, call.ctx);
      call.exchange.json(200, { id, object: "webhook_endpoint", deleted: true });
    },

    async get_version(call) {
      call.exchange.json(200, { version });
    },
  };
}

/** The message of a POST: 413 and 415 by the headers, then the body. Throws or rejects with ServiceError. */
function readRequest<T>(
  { limits, bodies, unknownFields }: HandlerDeps,
  call: Call,
  read: (body: JsonObject) => T,
  known: ReadonlySet<string>,
): T | Promise<T> {
  const { req, res, path } = call.exchange;
  bodies.checkAnnouncedSize(req, call.signal);
  checkMediaType(req);
  return bodies.read(req, res, call.signal, (bytes) => {
    const body = parseJsonBody(bytes, limits);
    unknownFields.note(body, known, path);
    return read(body);
  });
}

/** REST has no pages (MODEL-1). */
async function allModels(core: Core, call: Call): Promise<Model[]> {
  const models: Model[] = [];
  let pageToken = "";
  do {
    const page = await core.listModels(create(ListModelsRequestSchema, { pageToken }), call.ctx);
    models.push(...page.models);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  return models;
}
