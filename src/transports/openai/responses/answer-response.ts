import type { IdSource } from "../../../domain/call/ports.js";
import { ServiceError } from "../../../domain/call/service-error.js";
import type { Core } from "../../../domain/core.js";
import type { StoredResponses } from "../../../domain/responses/stored-responses.js";
import type { Call, Exchange } from "../../http/call.js";
import { type Translated, translatedFrames } from "../../http/native.js";
import { type KeepAlive, streamAnswer } from "../../http/stream.js";
import type { ResponseRequest } from "./read-response.js";
import { ResponseFrames } from "./response-frames.js";
import { ResponseObject, wholeResponseJson } from "./response-object.js";
import { storedInput } from "./stored-responses.js";

interface AnswerDeps {
  readonly core: Pick<Core, "createChatCompletion" | "streamChatCompletion">;
  /** Null: no responses are stored. */
  readonly storedResponses: Pick<StoredResponses, "put"> | null;
  readonly ids: IdSource;
  readonly keepAlive: KeepAlive;
}

/** Answers `POST /v1/responses` by a chat completion. Rejects with ServiceError only before the answer's head is written. */
export async function answerResponse(
  deps: AnswerDeps,
  call: Call,
  exchange: Exchange,
  { translation: request, native }: Translated<ResponseRequest>,
): Promise<void> {
  const { core, keepAlive } = deps;
  const { params, stream, repeatedJson, storedJson } = request;
  const createdAt = Math.floor(call.ctx.receivedAtMs / 1_000);
  try {
    if (stream) {
      const { id, head, items } = await core.streamChatCompletion(params, call.ctx, native);
      exchange.report(head);
      const response = new ResponseObject(id, createdAt, repeatedJson, storedJson);
      const store = response.isStored ? (json: string) => storeResponse(deps, call, request, response, json) : null;
      const frames = translatedFrames(new ResponseFrames(response, request.renamed, store), native);
      await streamAnswer(call, exchange, items, frames, keepAlive);
    } else {
      const { head, body } = await core.createChatCompletion(params, call.ctx, native);
      exchange.report(head);
      const response = new ResponseObject(body.id, createdAt, repeatedJson, storedJson);
      if (response.isStored) await storeResponse(deps, call, request, response, wholeResponseJson(response, body));
      exchange.json(200, body.native ?? wholeResponseJson(response, body));
    }
  } catch (thrown) {
    throw thrown instanceof ServiceError ? renamedError(thrown, request) : thrown;
  }
}

/** Stores a finished response before it is sent, so that its JSON can state whether it is stored. */
async function storeResponse(
  { storedResponses, ids }: AnswerDeps,
  { ctx }: Call,
  { input, previousId }: ResponseRequest,
  response: ResponseObject,
  json: string,
): Promise<void> {
  const items = storedInput(typeof input === "string" ? input : input.map(({ fields }) => fields), ids);
  const isStored = await storedResponses?.put({ id: response.id, previousId, json, input: items }, ctx);
  if (isStored !== true) response.notStored();
}

function renamedError(error: ServiceError, { renamed }: ResponseRequest): ServiceError {
  const { param, message } = renamed(error);
  if (param === null) return error;
  const { code, type, limits, degraded, cause } = error;
  const retryAfterMs = error.retryAfterMs ?? undefined;
  const shouldRetry = error.shouldRetry ?? undefined;
  return new ServiceError(code, message, { param, retryAfterMs, type, shouldRetry, limits, degraded, cause });
}
