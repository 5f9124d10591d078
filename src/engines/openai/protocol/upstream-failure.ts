import { EngineError, type EngineErrorCode, type EngineUsage } from "../../../domain/engine/engine.js";
import { printableLine } from "../../../lib/display-text.js";
import { isObject } from "../../../lib/json-string.js";

export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

/** The upstream's answer does not follow the protocol or is not complete. */
export class InvalidResponse extends EngineError {
  constructor(message: string, options: { readonly cause?: unknown; readonly usage?: EngineUsage } = {}) {
    super("upstream_error", message, { ...options, retryable: true });
  }
}

/** An error that the server reported within an answer of status 200. `body`: the error as the server sent it. */
export class ReportedError extends InvalidResponse {
  readonly body: string;

  constructor(body: string, cause?: Error) {
    super("the upstream reported an error in its answer", { cause });
    this.body = body;
  }
}

/** A copy of the error with the usage until the failure. */
export function withUsage(error: EngineError, usage: EngineUsage): EngineError {
  const { code, message, retryable, param, retryAfterMs } = error;
  if (error instanceof InvalidResponse) return new InvalidResponse(message, { usage, cause: error.cause ?? error });
  return new EngineError(code, message, {
    retryable,
    usage,
    cause: error.cause ?? error,
    ...(param === null ? {} : { param }),
    ...(retryAfterMs === null ? {} : { retryAfterMs }),
  });
}

/** An answer with a status other than 200. */
export interface FailedAnswer {
  readonly status: number;
  readonly headers: AnswerHeaders;
  /** The start of the body. */
  readonly body: string;
}

/** Fields of the request to which an error of the upstream can refer. */
export interface FailedRequest {
  /** Field of the prompt, for errors about the length of the context. */
  readonly promptParam: string;
  /** Context length of the model; null: not known. */
  readonly contextLength: number | null;
  /** Texts that a log must not contain: keys, and the words of the prompt. */
  readonly keys: readonly string[];
  readonly promptText: () => string;
  /** How errors are read; absent: they have OpenAI's forms. */
  readonly forms?: ErrorForms;
}

/** How errors of an API other than OpenAI's are read. */
export interface ErrorForms {
  /** HTTP statuses of the types of errors, for errors within a stream. */
  readonly statuses: Readonly<Record<string, number>>;
  /** Fields of the request by the first word of a message such as `max_tokens: too large`. */
  readonly fields: Readonly<Record<string, string>>;
  /** Matches messages of status 400 whose cause is the account of the key, not the request. */
  readonly blamesAccount: RegExp;
}

const publicCharsMax = 1_000;
const loggedCharsMax = 300;

/** Converts a failed answer to an EngineError. Only errors in the caller's request contain the upstream's message. */
export function engineErrorOf(answer: FailedAnswer, request: FailedRequest, nowMs: number): EngineError {
  const { status, headers } = answer;
  const reported = readError(answer.body);
  const blamesAccount = request.forms?.blamesAccount.test(reported.message) === true;
  if (isCallersFault(status, reported) && !blamesAccount) return callersError(reported, request);
  const code = blamesAccount ? "forbidden" : codeOf(status, reported);
  const wait = retryAfterMs(headers, nowMs);
  const retryAfter = wait !== null && (code === "rate_limited" || status === 503 || status === 529) ? wait : null;
  return new EngineError(code, `the upstream answered ${status}`, {
    retryable: code !== "unauthorized" && code !== "forbidden",
    cause: new Error(`HTTP ${status}: ${forLog(reported.message, request)}`),
    ...(retryAfter === null ? {} : { retryAfterMs: retryAfter }),
  });
}

/**
 * Converts an error that the server reported within its answer. Before any content it is treated like an answer with an error
 * status, because vLLM checks some fields after it began to answer. After content, neither the caller's request nor the key is
 * blamed.
 */
export function reportedErrorOf(error: ReportedError, request: FailedRequest, isFirst: boolean): EngineError {
  const reported = readError(error.body);
  const { type, code } = reported;
  const status = request.forms?.statuses[type] ?? Number(code);
  if (isCallersFault(status, reported)) return isFirst ? callersError(reported, request) : error;
  if (request.forms === undefined) return error;
  const found = codeOf(status, reported);
  const isOfKey = found === "unauthorized" || found === "forbidden" || found === "rate_limited";
  if (found === "upstream_error" || (isOfKey && !isFirst)) return error;
  const cause = new Error(`${type}: ${forLog(reported.message, request)}`);
  return new EngineError(found, error.message, { retryable: found !== "unauthorized" && found !== "forbidden", cause });
}

function isCallersFault(status: number, reported: ServerError): boolean {
  if (status === 400 || status === 413 || status === 422) return true;
  return status === 500 && blamesRequest.test(reported.message);
}

/** Matches messages of llama.cpp's status 500 for invalid requests, which no other server could serve either. */
const blamesRequest =
  /too large to process|(image|audio|video|multimodal) input is not supported|invalid (grammar|json schema)/i;

function codeOf(status: number, reported: ServerError): EngineErrorCode {
  switch (status) {
    case 401:
      return "unauthorized";
    case 403:
      return "forbidden";
    case 408:
    case 504:
      return "timeout";
    case 429:
      return "rate_limited";
    case 503:
      return /\bloading\b/i.test(reported.message) ? "model_loading" : "overloaded";
    case 529:
      return "overloaded";
    default:
      return "upstream_error";
  }
}

const aboutContext =
  /context[ _](length|size|window|limit)|maximum context|exceed_context_size|too large to process|maximum (model|input|sequence) length|prompt is too long/i;

function callersError(reported: ServerError, { promptParam, contextLength, keys, forms }: FailedRequest): EngineError {
  const message = forCaller(reported.message, keys);
  if (reported.code === "context_length_exceeded" || aboutContext.test(`${reported.type} ${reported.message}`)) {
    return new EngineError("context_overflow", contextMessage(message, reported, contextLength), {
      param: promptParam,
    });
  }
  const named = /^([a-z_]+)[.:]/.exec(reported.message)?.[1] ?? "";
  const param =
    reported.param ?? (forms !== undefined && Object.hasOwn(forms.fields, named) ? forms.fields[named] : null);
  return new EngineError("bad_input", message, param === null || param === undefined ? {} : { param });
}

/** A message that begins with the words for which client tools search (ERR-26); llama.cpp uses other words. */
function contextMessage(message: string, reported: ServerError, ofModel: number | null): string {
  // Anthropic: "prompt is too long: 210000 tokens > 200000 maximum".
  const [, tokens = null, maximum = null] = /(\d+) tokens > (\d+) maximum/.exec(message) ?? [];
  const contextLength = reported.contextLength ?? maximum ?? ofModel;
  if (/maximum context length is \d/.test(message) || contextLength === null) return message;
  const promptTokens = reported.promptTokens ?? tokens ?? /\((\d+) tokens\)/.exec(message)?.[1] ?? null;
  const prompt = promptTokens === null ? "" : `, but the prompt has ${promptTokens} tokens`;
  return `This model's maximum context length is ${contextLength} tokens${prompt}. Message of the server: ${message}`;
}

/** An error of a server in one form for all servers. */
interface ServerError {
  readonly message: string;
  readonly type: string;
  readonly code: string;
  readonly param: string | null;
  /** Numbers that llama.cpp states. */
  readonly contextLength: number | null;
  readonly promptTokens: number | null;
}

/**
 * Reads `{"error": {…}}`, `{"error": "…"}`, `{"detail": …}`, `{"message": …}`, a list with one of these, plain text, and
 * HTML, of which only the title is kept.
 */
export function readError(body: string): ServerError {
  const parsed = parseJson(body);
  const inner = Array.isArray(parsed) ? parsed[0] : parsed;
  if (typeof inner === "string") return serverError(inner, {});
  if (!isObject(inner)) return serverError(parsed === undefined ? plainText(body) : "", {});
  const error = inner["error"] ?? inner["detail"] ?? inner["errors"] ?? inner;
  if (typeof error === "string") return serverError(error, {});
  // FastAPI: a list of `{ loc, msg }`.
  const first = Array.isArray(error) ? error[0] : error;
  if (typeof first === "string") return serverError(first, {});
  if (!isObject(first)) return serverError("", {});
  const message = first["message"] ?? first["msg"] ?? first["detail"];
  return serverError(typeof message === "string" ? message : "", first);
}

function serverError(message: string, error: Readonly<Record<string, unknown>>): ServerError {
  const named = /\(parameter=([^,)\s]+)[^)]*\)/.exec(message);
  const given = error["param"];
  const path = typeof given === "string" && given !== "" ? given : (named?.[1] ?? pathOf(error["loc"]));
  const param = path?.replace(/^body\./, "") ?? null;
  return {
    message: message.replace(/\s*\(parameter=[^)]*\)/, "").trim(),
    type: textOf(error["type"]),
    code: textOf(error["code"]),
    // Clients see `param`, so only the path of a field is accepted.
    param: param !== null && /^[\w.[\]$-]{1,128}$/.test(param) ? param : null,
    contextLength: countOf(error["n_ctx"]),
    promptTokens: countOf(error["n_prompt_tokens"]),
  };
}

/** `["body", "messages", 0, "role"]` as `messages[0].role`. */
function pathOf(loc: unknown): string | null {
  if (!Array.isArray(loc)) return null;
  const steps: readonly unknown[] = loc[0] === "body" ? loc.slice(1) : loc;
  const path = steps.map((step) => (typeof step === "number" ? `[${step}]` : `.${String(step)}`)).join("");
  return path === "" ? null : path.replace(/^\./, "");
}

function plainText(body: string): string {
  if (!/^\s*</.test(body)) return body.trim();
  return /<title>([^<]*)</i.exec(body)?.[1]?.trim() ?? "an HTML page";
}

/** The message for the caller: one line without addresses and keys. */
function forCaller(message: string, keys: readonly string[]): string {
  const line = withoutSecrets(printableLine(message), keys).slice(0, publicCharsMax);
  return line === "" ? "The upstream server rejected the request without a reason." : line;
}

/** The message for the log: short and without words of the prompt, which some servers repeat. */
function forLog(message: string, { keys, promptText }: FailedRequest): string {
  const line = withoutSecrets(printableLine(message), keys).slice(0, loggedCharsMax);
  if (line === "") return "without a message";
  const prompt = promptText();
  return line.replace(/[^\s"'`,;:()[\]{}]{6,}/g, (word) => (prompt.includes(word) ? "…" : word));
}

function withoutSecrets(text: string, keys: readonly string[]): string {
  let clean = text;
  for (const key of keys) clean = clean.replaceAll(key, "…");
  return clean.replace(/\bsk-[\w*-]{6,}/g, "…").replace(/\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>)]+/gi, "…");
}

/** A week: longer waits are faults of the server, such as a date in another year. */
const retryAfterMaxMs = 7 * 86_400_000;

/** The wait that the headers name, in milliseconds; null: none. */
export function retryAfterMs(headers: AnswerHeaders, nowMs: number): number | null {
  const exact = Number(headers["retry-after-ms"] ?? Number.NaN);
  if (exact >= 0) return Math.min(Math.ceil(exact), retryAfterMaxMs);
  const text = headers["retry-after"];
  if (typeof text !== "string") return null;
  const seconds = /^\s*\d+(\.\d+)?\s*$/.test(text) ? Number(text) : (Date.parse(text) - nowMs) / 1_000;
  if (Number.isNaN(seconds)) return null;
  return Math.min(Math.max(0, Math.ceil(seconds * 1_000)), retryAfterMaxMs);
}

/** The value of a JSON text; undefined for a text that is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The value if it is an integer from 0 to 2^31 - 1, otherwise null. */
export function countOf(value: unknown): number | null {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 2_147_483_647 ? Number(value) : null;
}

function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}
