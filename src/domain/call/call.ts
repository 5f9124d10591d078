import { type ErrorCode, errorRow } from "../../contract/errors.js";
import type { Operation } from "../../contract/operations.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { jsonString, rememberLast } from "../../lib/json-string.js";
import {
  type Browser,
  type CallContext,
  type Caller,
  Ended,
  type EndReason,
  endReasonOf,
  errorOfEnd,
} from "./call-context.js";
import type { LiveRequest, LiveRequests, Stage, UsageTally, UsageTotal } from "./live-requests.js";
import { CallDetails, type CallEnd, CallTimes, type CallTracer, type Observer, parseTraceparent } from "./observer.js";
import type { Clock, Logger } from "./ports.js";
import type { Principal } from "./principal.js";
import type { ServiceError } from "./service-error.js";

/** Facts about a call, collected by `core.open`. */
export interface CallFacts {
  readonly requestId: string;
  readonly operation: Operation;
  readonly principal: Principal;
  readonly caller: Caller;
  readonly receivedAtMs: number;
  /** `receivedAtMs` on the monotonic clock. */
  readonly arrivedAtMs: number;
  readonly deadlineAtMs: number;
}

export interface CallDeps {
  readonly clock: Clock;
  readonly live: LiveRequests;
  readonly log: Logger;
  readonly observer: Pick<Observer, "callEnded">;
  /** Null when tracing is off. */
  readonly tracer: CallTracer | null;
  /** Charges a refused request one request, in the background (state RL-14). */
  readonly chargeRefused: (call: Call) => void;
}

interface Outcome {
  readonly why: EndReason;
  readonly error: ErrorCode | null;
  readonly usage: UsageTotal | null;
}

/** One call between `open` and `close`: the context given to transports and the entry in the list of live requests. */
export class Call implements CallContext, LiveRequest {
  readonly requestId: string;
  readonly operation: Operation;
  readonly principal: Principal;
  /** Abort flag of the call, without the cost of an AbortSignal. */
  readonly stop: AbortFlag;
  readonly receivedAtMs: number;
  readonly deadlineAtMs: number;
  readonly times: CallTimes;
  /** Data for the trace; null when tracing is off. */
  readonly details: CallDetails | null;
  place = -1;
  readonly #deps: CallDeps;
  readonly #caller: Caller;
  readonly #cancelDeadline: () => void;
  #stage: Stage = "receiving";
  #model: string | null = null;
  #labels: ClientLabels | null = null;
  #outcome: Outcome | null = null;
  #closed = false;
  #holds = 0;
  #tally: UsageTally | null = null;

  constructor(deps: CallDeps, facts: CallFacts) {
    this.requestId = facts.requestId;
    this.operation = facts.operation;
    this.principal = facts.principal;
    this.stop = facts.caller.abort;
    this.receivedAtMs = facts.receivedAtMs;
    this.deadlineAtMs = facts.deadlineAtMs;
    this.times = new CallTimes(facts.arrivedAtMs);
    this.details = deps.tracer === null ? null : new CallDetails();
    this.#deps = deps;
    this.#caller = facts.caller;
    this.#cancelDeadline = deps.clock.after(Math.max(0, facts.deadlineAtMs - facts.receivedAtMs), () =>
      this.abort("deadline"),
    );
    deps.live.add(this);
  }

  get signal(): AbortSignal {
    return this.#caller.abort.signal;
  }

  get address(): string {
    return this.#caller.address;
  }

  get browser(): Browser | null {
    return this.#caller.browser ?? null;
  }

  get log(): Logger {
    return new RequestLog(this.#deps.log, this.requestId);
  }

  get id(): string {
    return this.requestId;
  }

  get account(): string {
    return this.principal.account;
  }

  get keyId(): string | null {
    return this.principal.keyId;
  }

  get sessionId(): string | null {
    return this.principal.kind === "administrator" ? this.principal.sessionId : null;
  }

  get model(): string | null {
    return this.#model;
  }

  get stage(): Stage {
    return this.#stage;
  }

  enter(stage: Stage): void {
    this.#stage = stage;
  }

  watching(): void {
    this.enter("watching");
  }

  chose(model: string): void {
    this.#model = model;
  }

  /** Keeps the client's labels for the request log; null without any. Never part of events, metrics and traces. */
  labelled(labels: ClientLabels | null): void {
    this.#labels = labels;
  }

  /** Records the wait for a slot, in all deployments together. */
  waited(queueMs: number): void {
    this.times.engineBegan(this.#deps.clock.monotonic(), queueMs);
  }

  abort(why: EndReason): void {
    this.#caller.abort.abort(new Ended(why));
  }

  refused(error: ServiceError): void {
    // An admitted run records its own outcome and usage.
    if (this.#outcome !== null || this.#holds > 0) return;
    this.ended(this.stop.aborted ? endReasonOf(this.stop) : "failed", error.code, null);
    if (isChargeable(error)) this.#deps.chargeRefused(this);
  }

  /** Records the outcome for the request log; the first one counts. */
  ended(why: EndReason, error: ErrorCode | null, usage: UsageTotal | null): void {
    this.#outcome ??= { why, error, usage };
  }

  /** Usage of the admitted run so far; null without one. */
  get usedSoFar(): UsageTotal | null {
    return this.#holds > 0 && this.#tally !== null ? this.#tally.total() : null;
  }

  /** Keeps the call in the list of live requests until the run is settled. */
  hold(tally: UsageTally): void {
    this.#holds += 1;
    this.#tally = tally;
  }

  letGo(): void {
    this.#holds -= 1;
    this.#finishIfOver();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#cancelDeadline();
    this.#finishIfOver();
  }

  #finishIfOver(): void {
    if (!this.#closed || this.#holds > 0) return;
    this.#deps.live.remove(this);
    this.#tellEnd();
  }

  #tellEnd(): void {
    const { log, observer, tracer } = this.#deps;
    const why = this.stop.aborted ? endReasonOf(this.stop) : "completed";
    const outcome = this.#outcome ?? { why, error: null, usage: null };
    const end: CallEnd = {
      requestId: this.requestId,
      operation: this.operation,
      transport: this.#caller.transport,
      model: this.#model,
      why: outcome.why,
      code: outcome.error ?? (outcome.why === "completed" ? "ok" : errorOfEnd(new Ended(outcome.why)).code),
      stage: this.#stage,
      clientLeft: why === "client_left",
      usage: outcome.usage,
      receivedAtMs: this.receivedAtMs,
      durationMs: this.times.sinceArrival(this.#deps.clock.monotonic()),
      times: this.times,
      traceparent: this.#caller.traceparent,
      details: this.details,
    };
    observer.callEnded(end);
    const traceId = tracer === null ? parseTraceparent(end.traceparent)?.traceId : tracer.trace(end);
    log.info(new CallEntry(end, this.principal, this.#caller, outcome.error, traceId, this.#labels), "request");
  }
}

/** Whether the request itself was at fault. */
function isChargeable(error: ServiceError): boolean {
  const { http } = errorRow(error.code);
  return http === 400 || http === 404 || http === 413 || http === 415;
}

/** Adds the request id to every line. Created per call; cheaper than a child logger. */
class RequestLog implements Logger {
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
