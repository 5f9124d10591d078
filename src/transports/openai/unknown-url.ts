import { type OperationRow, operations } from "../../contract/operations.js";
import { quote } from "../../domain/call/field-checks.js";
import { ServiceError } from "../../domain/call/service-error.js";

const root = "/v1";

/** Paths below `/v1` that end in no id, the longest first: `/completions` is the end of `/chat/completions`, too. */
const endpoints = (Object.values(operations) as OperationRow[])
  .flatMap((row) => (row.rest === undefined || row.rest.path.endsWith("}") ? [] : [row.rest.path.slice(root.length)]))
  .sort((a, b) => b.length - a.length);

/** For a path that does not exist: names the one that was probably meant (GEN-2). */
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
