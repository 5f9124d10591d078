import type { ErrorCode } from "../../contract/errors.js";
import { jsonString } from "../../lib/json-string.js";
import { rememberLast } from "../../lib/remember-last.js";
import type { Caller } from "./call-context.js";
import type { CallEnd } from "./observer.js";
import type { Logger } from "./ports.js";
import type { Principal } from "./principal.js";

/** Adds the request id to every line. Created per call; cheaper than a child logger. */
export class RequestLog implements Logger {
  readonly #log: Logger;
  readonly #requestId: string;

  constructor(log: Logger, requestId: string) {
    this.#log = log;
    this.#requestId = requestId;
  }

  debug(fields: object, message: string): void {
    this.#log.debug({ request_id: this.#requestId, ...fields }, message);
  }

  info(fields: object, message: string): void {
    this.#log.info({ request_id: this.#requestId, ...fields }, message);
  }

  warn(fields: object, message: string): void {
    this.#log.warn({ request_id: this.#requestId, ...fields }, message);
  }

  error(fields: object, message: string): void {
    this.#log.error({ request_id: this.#requestId, ...fields }, message);
  }
}

/**
 * A log line that serializes itself. For lines written per request, inspecting each field would cost more than writing
 * it.
 */
export abstract class LogEntry {
  /** The fields as members of a JSON object, each preceded by a comma. */
  abstract toMembers(): string;

  /** Whether a field holds text from a client, which may contain a secret. */
  abstract get holdsForeignText(): boolean;
}

/** Labels that a client puts on its request for the operator. Validated, so each has a bound. */
export interface ClientLabels {
  readonly user: string | undefined;
  readonly safetyIdentifier?: string | undefined;
  readonly promptCacheKey?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>>;
}

/** The request log line of a call. No content and no key (SEC-18). */
export class CallEntry extends LogEntry {
  readonly #hasLabels: boolean;
  readonly request_id: string;
  readonly operation: string;
  readonly transport: string;
  readonly account: string;
  readonly key_id: string | null;
  readonly model: string | null;
  readonly outcome: string;
  readonly error: string | null;
  readonly prompt_tokens: number | undefined;
  readonly completion_tokens: number | undefined;
  readonly admit_ms: number;
  readonly queue_ms: number;
  readonly duration_ms: number;
  readonly client_request_id: string | undefined;
  readonly retry_count: string | undefined;
  readonly address: string;
  readonly trace_id: string | undefined;
  readonly user: string | undefined;
  readonly safety_identifier: string | undefined;
  readonly prompt_cache_key: string | undefined;
  readonly metadata: Readonly<Record<string, string>> | undefined;

  constructor(
    end: CallEnd,
    principal: Principal,
    caller: Caller,
    error: ErrorCode | null,
    traceId: string | undefined,
    labels: ClientLabels | null,
  ) {
    super();
    this.request_id = end.requestId;
    this.operation = end.operation;
    this.transport = end.transport;
    this.account = principal.account;
    this.key_id = principal.keyId;
    this.model = end.model;
    this.outcome = end.why;
    this.error = error;
    this.prompt_tokens = end.usage?.promptTokens;
    this.completion_tokens = end.usage?.completionTokens;
    this.admit_ms = Math.round(end.times.admitMs);
    this.queue_ms = Math.round(end.times.queueMs);
    this.duration_ms = Math.round(end.durationMs);
    this.client_request_id = caller.clientRequestId;
    this.retry_count = caller.retryCount;
    this.address = caller.address;
    this.trace_id = traceId;
    this.user = labels?.user;
    this.safety_identifier = labels?.safetyIdentifier;
    this.prompt_cache_key = labels?.promptCacheKey;
    this.metadata = labels?.metadata;
    this.#hasLabels = labels !== null;
  }

  /** Our own ids never need JSON escaping. */
  override toMembers(): string {
    return (
      `,"request_id":"${this.request_id}","operation":"${this.operation}","transport":"${this.transport}"` +
      `,"account":"${this.account}","key_id":${quotedOrNull(this.key_id)},"model":${quotedModel(this.model)}` +
      `,"outcome":"${this.outcome}","error":${quotedOrNull(this.error)}${this.#tokens()}` +
      `,"admit_ms":${this.admit_ms},"queue_ms":${this.queue_ms},"duration_ms":${this.duration_ms}` +
      `${this.#ofClient()},"address":${quotedAddress(this.address)}` +
      (this.trace_id === undefined ? "" : `,"trace_id":"${this.trace_id}"`) +
      (this.#hasLabels ? this.#labels() : "")
    );
  }

  override get holdsForeignText(): boolean {
    return this.client_request_id !== undefined || this.#hasLabels;
  }

  #tokens(): string {
    if (this.prompt_tokens === undefined) return "";
    return `,"prompt_tokens":${this.prompt_tokens},"completion_tokens":${this.completion_tokens}`;
  }

  #ofClient(): string {
    return member("client_request_id", this.client_request_id) + member("retry_count", this.retry_count);
  }

  #labels(): string {
    return (
      member("user", this.user) +
      member("safety_identifier", this.safety_identifier) +
      member("prompt_cache_key", this.prompt_cache_key) +
      (this.metadata === undefined ? "" : `,"metadata":${JSON.stringify(this.metadata)}`)
    );
  }
}

function member(name: string, value: string | undefined): string {
  return value === undefined ? "" : `,"${name}":${jsonString(value)}`;
}

function quotedOrNull(text: string | null): string {
  return text === null ? "null" : `"${text}"`;
}

const quotedModel = rememberLast((model: string | null) => (model === null ? "null" : jsonString(model)));
const quotedAddress = rememberLast(jsonString);
