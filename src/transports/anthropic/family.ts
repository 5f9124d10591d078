import { errorRow } from "../../contract/errors.js";
import { headers } from "../../contract/headers.js";
import type { LimitState } from "../../domain/call/rate-limits.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { ApiFamily } from "../http/call.js";

/** Anthropic's status for an overloaded server. Clients retry after a wait, as they do after 503. */
const overloadedStatus = 529;

/** Error types by HTTP status. Any other status is `invalid_request_error` below 500, else `api_error` (ANT-5). */
const errorTypes: ReadonlyMap<number, string> = new Map([
  [401, "authentication_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [410, "not_found_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [overloadedStatus, "overloaded_error"],
]);

/** Error codes by the field at fault. After the code for `thread`, SDKs send the whole conversation, not only its last turn. */
const errorCodes: ReadonlyMap<string, string> = new Map([["thread", "thread_unsupported_request"]]);

/** Prefixes of the headers for the limit of tokens. The service has one limit for input and output tokens together. */
const tokenLimits = [
  "anthropic-ratelimit-tokens",
  "anthropic-ratelimit-input-tokens",
  "anthropic-ratelimit-output-tokens",
];

/** The credential, the headers and the errors of Anthropic's API. */
export const anthropicFamily: ApiFamily = {
  transport: "anthropic",
  keyHeader: "x-api-key",

  addHeaders(own, requestId) {
    own.push(headers.anthropicRequestId, requestId, headers.requestId, requestId);
  },

  addLimitHeaders(own, { requests, tokens }, nowMs) {
    if (requests !== undefined) addLimit(own, "anthropic-ratelimit-requests", requests, nowMs);
    if (tokens !== undefined) for (const prefix of tokenLimits) addLimit(own, prefix, tokens, nowMs);
  },

  statusOf,

  errorToJson(error, request_id) {
    const error_code = error.param === null ? undefined : errorCodes.get(error.param);
    const details = error_code === undefined ? {} : { details: { error_code } };
    return {
      type: "error",
      error: { type: typeOf(statusOf(error)), message: messageOf(error), ...details },
      request_id,
    };
  },
};

/** Adds the headers of one limit. The reset is the time, in RFC 3339, at which the window is completely free again. */
function addLimit(own: string[], prefix: string, { limit, remaining, resetMs }: LimitState, nowMs: number): void {
  own.push(`${prefix}-limit`, `${limit}`, `${prefix}-remaining`, `${remaining}`);
  own.push(`${prefix}-reset`, new Date(Math.ceil(nowMs + resetMs)).toISOString());
}

function statusOf({ code }: ServiceError): number {
  const isOverload = code === "server_is_overloaded" || code === "upstream_rate_limited";
  return isOverload ? overloadedStatus : errorRow(code).http;
}

function typeOf(status: number): string {
  return errorTypes.get(status) ?? (status < 500 ? "invalid_request_error" : "api_error");
}

/** The message of an error, with the field at fault in this API's notation: `tools.0.type`. */
function messageOf({ message, param }: ServiceError): string {
  if (param === null) return message;
  const path = dotted(param);
  return message.includes(param) ? message.replaceAll(param, path) : `${path}: ${message}`;
}

function dotted(param: string): string {
  return param.replace(/\[(\d+)\]/g, ".$1");
}

/** Names in this API of fields that have another name in the core's messages; the first match counts. */
const renamed: readonly (readonly [form: RegExp, name: string])[] = [
  [/^stop$/, "stop_sequences"],
  [/^user$/, "metadata.user_id"],
  [/^reasoning_effort$/, "output_config.effort"],
  [/^response_format(\.json_schema.*)?$/, "output_config.format"],
  [/^(tools\[\d+\])\.function\.parameters$/, "$1.input_schema"],
  [/^(tools\[\d+\])\.function(.*)$/, "$1$2"],
];

/**
 * Rewrites an error of the core about a translated request so that it names the fields of the original request. `sources`:
 * for each message of the core, the path of the original request from which it was read.
 */
export function restated(thrown: unknown, sources: readonly string[]): unknown {
  if (!(thrown instanceof ServiceError) || thrown.param === null) return thrown;
  const { code, param, message, type, retryAfterMs, shouldRetry, limits, degraded } = thrown;
  const own = ownName(param, sources);
  const text = code === "invalid_tool_messages" ? unpairedTools(own) : message.replaceAll(`'${param}'`, `'${own}'`);
  const retry = { retryAfterMs: retryAfterMs ?? undefined, shouldRetry: shouldRetry ?? undefined };
  return new ServiceError(code, text, { param: own, type, ...retry, limits, degraded, cause: thrown });
}

function ownName(param: string, sources: readonly string[]): string {
  const index = /^messages\[(\d+)\]/.exec(param)?.[1];
  if (index !== undefined) return sources[Number(index)] ?? param;
  const [form, name] = renamed.find(([pattern]) => pattern.test(param)) ?? [];
  return form === undefined || name === undefined ? param : param.replace(form, name);
}

/** Text for tool calls without results. The core's text names messages with the role `tool`, which this API does not have. */
function unpairedTools(path: string): string {
  return (
    `'${path}': each 'tool_use' block must have a 'tool_result' block with its id in the next message, and each ` +
    "'tool_result' block a 'tool_use' block in the message before it."
  );
}
