import { headers } from "../../contract/headers.js";
import { type OperationRow, operations } from "../../contract/operations.js";
import { quote, ServiceError } from "../../domain/call/service-error.js";
import type { ApiFamily } from "../http/exchange.js";

/** Version of OpenAI's API whose shapes are spoken here (HDR-3). */
const openAiVersion = "2020-10-01";

/** The headers and the error envelope of OpenAI's API. */
export const openAiFamily: ApiFamily = {
  addHeaders(own, requestId, processingMs) {
    own.push(headers.requestId, requestId, headers.processingMs, `${processingMs}`, headers.version, openAiVersion);
  },

  errorToJson,
};

/** The envelope; `type`, `param` and `code` are always present (DEC-2). */
export function errorToJson(error: ServiceError): object {
  return { error: { message: error.message, type: error.type, param: error.param, code: error.code } };
}

const root = "/v1";

/** Paths below `/v1` without an id at their end, the longest first: `/chat/completions` also ends in `/completions`. */
const endpoints = (Object.values(operations) as OperationRow[])
  .flatMap((row) => (row.rest === undefined || row.rest.path.endsWith("}") ? [] : [row.rest.path.slice(root.length)]))
  .sort((a, b) => b.length - a.length);

/** The error for a path that does not exist: it names the path that was probably meant (GEN-2). */
export function unknownUrl(method: string, path: string): ServiceError {
  return new ServiceError("unknown_url", `Unknown request URL: ${method} ${quote(path)}. ${advice(path)}`);
}

function advice(path: string): string {
  const trimmed = path.replace(/\/{1,8}$/, "");
  if (trimmed.endsWith("/responses")) {
    return "The Responses API is not offered; use /v1/chat/completions (in the AI SDK: openai.chat(id)).";
  }
  const meant = endpoints.find((endpoint) => trimmed.endsWith(endpoint));
  if (meant === undefined) return "GET /v1 lists what there is.";
  return `Did you mean ${root}${meant}? The base URL of a client ends in ${root}.`;
}
