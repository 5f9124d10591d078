import { ServiceError } from "../../../domain/call/service-error.js";
import type { Core } from "../../../domain/core.js";
import type { Call, Exchange } from "../../http/call.js";
import { type KeepAlive, streamAnswer } from "../../http/sse.js";
import type { ResponseRequest } from "./read-response.js";
import { ResponseFrames } from "./response-frames.js";
import { ResponseObject, wholeResponseJson } from "./response-object.js";

/** Answers `POST /v1/responses` with the chat completion of its messages. Rejects with ServiceError before the head. */
export async function answerResponse(
  core: Pick<Core, "createChatCompletion" | "streamChatCompletion">,
  call: Call,
  exchange: Exchange,
  request: ResponseRequest,
  keepAlive: KeepAlive,
): Promise<void> {
  const { params, stream, repeatedJson } = request;
  const createdAt = Math.floor(call.ctx.receivedAtMs / 1_000);
  try {
    if (stream) {
      const { id, head, items } = await core.streamChatCompletion(params, call.ctx);
      exchange.report(head);
      const response = new ResponseObject(id, createdAt, repeatedJson);
      await streamAnswer(call, exchange, items, new ResponseFrames(response, request.renamed), keepAlive);
    } else {
      const { head, body } = await core.createChatCompletion(params, call.ctx);
      exchange.report(head);
      exchange.json(200, wholeResponseJson(new ResponseObject(body.id, createdAt, repeatedJson), body));
    }
  } catch (thrown) {
    throw thrown instanceof ServiceError ? renamedError(thrown, request) : thrown;
  }
}

function renamedError(error: ServiceError, { renamed }: ResponseRequest): ServiceError {
  const { param, message } = renamed(error);
  if (param === null) return error;
  const { code, type, limits, degraded, cause } = error;
  const retryAfterMs = error.retryAfterMs ?? undefined;
  const shouldRetry = error.shouldRetry ?? undefined;
  return new ServiceError(code, message, { param, retryAfterMs, type, shouldRetry, limits, degraded, cause });
}
