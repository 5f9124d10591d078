import type { ServiceLimits } from "../../contract/limits.js";
import type { Operation } from "../../contract/operations.js";
import type { Core } from "../../domain/core.js";
import {
  type ApiDeps,
  allModels,
  apiPaths,
  createApi,
  createJsonReader,
  decodeId,
  type OperationHandler,
} from "../http/api.js";
import type { BodyDeps } from "../http/body.js";
import { headerOf } from "../http/call.js";
import type { JsonObject } from "../http/json-object.js";
import { translatedFrames } from "../http/native.js";
import type { Route } from "../http/routes.js";
import { type KeepAlive, streamAnswer } from "../http/stream.js";
import { anthropicFamily, restated } from "./family.js";
import { modelJson, modelPageJson, readModelPage } from "./models.js";
import { betaHeader, countFields, messageFields, readCount, translateMessage } from "./read-message.js";
import { MessageFrames, messageJson } from "./write-message.js";

interface AnthropicDeps extends ApiDeps, BodyDeps {
  readonly core: Core;
  readonly limits: ServiceLimits;
  readonly keepAlive: KeepAlive;
}

type AnthropicOperation = Extract<Operation, "create_message" | "count_tokens" | "list_models" | "get_model">;

/** Operations on paths that only Anthropic's API has. */
export const anthropicPaths = [
  { name: "create_message", method: "POST", path: "/v1/messages" },
  { name: "count_tokens", method: "POST", path: "/v1/messages/count_tokens" },
] as const;

/** Operations on paths that OpenAI's API also has. */
const sharedRows = [
  { name: "list_models", method: "GET", path: "/v1/models" },
  { name: "get_model", method: "GET", path: "/v1/models/{id}" },
] as const;

/** Header that clients of this API send with every request. On the shared paths it selects this API. */
const versionHeader = "anthropic-version";

/** The routes of Anthropic's Messages API. */
export function createAnthropicRoutes(deps: AnthropicDeps): Route[] {
  const { operationRoute } = createApi(deps, anthropicFamily);
  const handlers = createHandlers(deps);
  return [
    ...apiPaths<AnthropicOperation>(anthropicPaths).map((path) => operationRoute(path, handlers)),
    ...apiPaths<AnthropicOperation>(sharedRows).map((path) => operationRoute(path, handlers, versionHeader)),
  ];
}

function createHandlers(deps: AnthropicDeps): Readonly<Record<AnthropicOperation, OperationHandler>> {
  const { core } = deps;
  const readRequest = createJsonReader(deps);
  // In this API a keep-alive is always an event (`ping`), never a comment.
  const keepAlive = deps.keepAlive === "off" ? "off" : "chunk";

  return {
    async create_message(call, exchange) {
      const betas = headerOf(exchange.req, betaHeader);
      const read = (body: JsonObject) => translateMessage(body, betas);
      const { translation, native } = await readRequest(call, exchange, read, messageFields);
      const { params, stream, sources } = translation;
      try {
        if (!stream) {
          const { head, body } = await core.createChatCompletion(params, call.ctx, native);
          exchange.report(head);
          exchange.json(200, body.native ?? messageJson(body));
          return;
        }
        const answer = await core.streamChatCompletion(params, call.ctx, native);
        exchange.report(answer.head);
        const frames = translatedFrames(new MessageFrames(params.model, answer), native);
        await streamAnswer(call, exchange, answer.items, frames, keepAlive);
      } catch (thrown) {
        throw restated(thrown, sources);
      }
    },

    async count_tokens(call, exchange) {
      const { params, sources } = await readRequest(call, exchange, readCount, countFields);
      try {
        const { head, body } = await core.countTokens(params, call.ctx);
        exchange.report(head);
        exchange.json(200, { input_tokens: body.promptTokens });
      } catch (thrown) {
        throw restated(thrown, sources);
      }
    },

    async list_models(call, exchange) {
      const page = readModelPage(exchange.req.url ?? "");
      exchange.json(200, modelPageJson(await allModels(core, call), page));
    },

    async get_model(call, exchange, rawId) {
      exchange.json(200, modelJson(await core.getModel(decodeId(rawId), call.ctx)));
    },
  };
}
