import { errorRow } from "../../contract/errors.js";
import type { Operation } from "../../contract/operations.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { StreamBuffer, type StreamBuffers } from "../../lib/collections.js";
import { jsonString, rememberLast } from "../../lib/json-string.js";
import {
  type AnswerRoute,
  type Browser,
  type CallContext,
  type Caller,
  Ended,
  type EndReason,
  endReasonOf,
  errorOfEnd,
} from "./call-context.js";
import type { LiveRequest, LiveRequests, Stage, UsageTally, UsageTotal } from "./live-requests.js";
import {
  CallDetails,
  type CallEnd,
  type CallLine,
  type CallRecorder,
  CallTimes,
  type CallTracer,
  type ClientLabels,
  type Observer,
  parseTraceparent,
} from "./observer.js";
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
  /** Bounds the data that all calls together hold for readers that are slower than their engines. */
  readonly buffers: StreamBuffers;
  readonly observer: Pick<Observer, "callEnded">;
  /** Null when tracing is off. */
  readonly tracer: CallTracer | null;
  /** Null when the request log is off. */
  readonly recorder: CallRecorder | null;
  /** Charges a rejected call as one request, in the background (state RL-14). */
  readonly chargeRefused: (call: Call) => void;
}

interface Outcome {
  readonly why: EndReason;
  readonly error: ServiceError | null;
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
  /** Data for traces and the request log; null when both are off. */
  readonly details: CallDetails | null;
  stage: Stage = "receiving";
  /** Id of a model in the catalog; null until the request is validated. */
  model: string | null = null;
  /** The last try in a deployment; null before the first one. */
  route: AnswerRoute | null = null;
  /** The client's labels for the operator; null without any. Never part of events, metrics and traces. */
  labels: ClientLabels | null = null;
  place = -1;
  readonly #deps: CallDeps;
  readonly #caller: Caller;
  readonly #cancelDeadline: () => void;
  #outcome: Outcome | null = null;
  #closed = false;
  #holds = 0;
  #tally: UsageTally | null = null;
  #buffer: StreamBuffer | null = null;

  constructor(deps: CallDeps, facts: CallFacts) {
    this.requestId = facts.requestId;
    this.operation = facts.operation;
    this.principal = facts.principal;
    this.stop = facts.caller.abort;
    this.receivedAtMs = facts.receivedAtMs;
    this.deadlineAtMs = facts.deadlineAtMs;
    this.times = new CallTimes(facts.arrivedAtMs);
    const { tracer, recorder } = deps;
    this.details = tracer === null && recorder === null ? null : new CallDetails(recorder?.transcript() ?? null);
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

  get buffer(): StreamBuffer {
    if (this.#buffer === null) {
      this.#buffer = new StreamBuffer(this.#deps.buffers);
      if (this.#closed) this.#buffer.close();
    }
    return this.#buffer;
  }

  get caller(): Caller {
    return this.#caller;
  }

  get address(): string {
    return this.#caller.address;
  }

  get fallbackModel(): string | null {
    return this.route?.fallbackModel ?? null;
  }

  get refusesFallbacks(): boolean {
    return this.#caller.refusesFallbacks === true;
  }

  /** Whether a trusted gateway forwarded the call. */
  get isForwarded(): boolean {
    return this.#caller.isForwarded === true;
  }

  get browser(): Browser | null {
    return this.#caller.browser ?? null;
  }

  get log(): Logger {
    return withRequestId(this.#deps.log, this.requestId);
  }

  watching(): void {
    this.stage = "watching";
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
    this.ended(this.stop.aborted ? endReasonOf(this.stop) : "failed", error, null);
    if (isChargeable(error)) this.#deps.chargeRefused(this);
  }

  /** Records the outcome; the first one counts. */
  ended(why: EndReason, error: ServiceError | null, usage: UsageTotal | null): void {
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

  release(): void {
    this.#holds -= 1;
    this.#finishIfOver();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#cancelDeadline();
    this.#buffer?.close();
    this.#finishIfOver();
  }

  #finishIfOver(): void {
    if (!this.#closed || this.#holds > 0) return;
    this.#deps.live.remove(this);
    this.#reportEnd();
  }

  #reportEnd(): void {
    const { transport, traceparent } = this.#caller;
    const why = this.stop.aborted ? endReasonOf(this.stop) : "completed";
    const outcome = this.#outcome ?? { why, error: null, usage: null };
    const end: CallEnd = {
      requestId: this.requestId,
      operation: this.operation,
      transport,
      model: this.model,
      why: outcome.why,
      code: outcome.error?.code ?? (outcome.why === "completed" ? "ok" : errorOfEnd(new Ended(outcome.why)).code),
      stage: this.stage,
      clientLeft: why === "client_left",
      usage: outcome.usage,
      receivedAtMs: this.receivedAtMs,
      durationMs: this.times.sinceArrival(this.#deps.clock.monotonic()),
      times: this.times,
      route: this.route,
      traceparent,
      details: this.details,
    };
    const traceId = reportEnd(this.#deps, end);
    const { principal, labels } = this;
    const line = { end, principal, caller: this.#caller, error: outcome.error, traceId, labels };
    this.#deps.log.info(new CallEntry(line), "request");
    this.#deps.recorder?.record(line);
  }
}

/** Counts and traces the end of a call. Returns its trace id; undefined without one. */
export function reportEnd({ observer, tracer }: Pick<CallDeps, "observer" | "tracer">, end: CallEnd) {
  observer.callEnded(end);
  return tracer === null ? parseTraceparent(end.traceparent)?.traceId : tracer.trace(end);
}

/** Whether the error was caused by the request itself. */
function isChargeable(error: ServiceError): boolean {
  const { http } = errorRow(error.code);
  return http === 400 || http === 404 || http === 413 || http === 415;
}

/** Adds the request id to every line; cheaper than a child logger. */
function withRequestId(log: Logger, request_id: string): Logger {
  return {
    debug: (fields, message) => log.debug({ request_id, ...fields }, message),
    info: (fields, message) => log.info({ request_id, ...fields }, message),
    warn: (fields, message) => log.warn({ request_id, ...fields }, message),
    error: (fields, message) => log.error({ request_id, ...fields }, message),
  };
}

/**
 * The log line of a call, without content and key (SEC-18). It serializes itself: for a line per request,
 * inspecting each field would cost more than writing it.
 */
export class CallEntry {
  readonly #line: CallLine;

  constructor(line: CallLine) {
    this.#line = line;
  }

  /** Whether a field holds text from a client, which may contain a secret. */
  get holdsForeignText(): boolean {
    return this.#line.caller.clientRequestId !== undefined || this.#line.labels !== null;
  }

  /** The fields as members of a JSON object, each preceded by a comma. Our own ids never need JSON escaping. */
  toMembers(): string {
    const { end, principal, caller, error, traceId, labels } = this.#line;
    const { requestId, operation, transport, model, why, usage, times, route, durationMs } = end;
    return (
      `,"request_id":"${requestId}","operation":"${operation}","transport":"${transport}"` +
      `,"account":"${principal.account}","key_id":${quotedOrNull(principal.keyId)},"model":${quotedModel(model)}` +
      (route === null ? "" : membersOfRoute(route)) +
      `,"outcome":"${why}","error":${quotedOrNull(error?.code ?? null)}` +
      (usage === null ? "" : `,"prompt_tokens":${usage.promptTokens},"completion_tokens":${usage.completionTokens}`) +
      `,"admit_ms":${Math.round(times.admitMs)},"queue_ms":${Math.round(times.queueMs)}` +
      `,"duration_ms":${Math.round(durationMs)}${member("client_request_id", caller.clientRequestId)}` +
      `${member("retry_count", caller.retryCount)},"address":${quotedAddress(caller.address)}` +
      (traceId === undefined ? "" : `,"trace_id":"${traceId}"`) +
      (labels === null ? "" : membersOf(labels))
    );
  }
}

/**
 * Caches the last result for routes with one try and no fallback, which nearly all requests have. `work` must be a pure
 * function.
 */
export function rememberFirstTry<R>(work: (route: AnswerRoute) => R): (route: AnswerRoute) => R {
  const ofFirst = rememberLast((deployment: string) => work({ deployment, attempts: 1, fallbackModel: null }));
  return (route) => (route.attempts === 1 && route.fallbackModel === null ? ofFirst(route.deployment) : work(route));
}

const membersOfRoute = rememberFirstTry(
  ({ deployment, attempts, fallbackModel }) =>
    `,"deployment":${jsonString(deployment)},"attempts":${attempts}` +
    member("fallback_model", fallbackModel ?? undefined),
);

function membersOf({ user, safetyIdentifier, promptCacheKey, metadata }: ClientLabels): string {
  return (
    member("user", user) +
    member("safety_identifier", safetyIdentifier) +
    member("prompt_cache_key", promptCacheKey) +
    (metadata === undefined ? "" : `,"metadata":${JSON.stringify(metadata)}`)
  );
}

function member(name: string, value: string | undefined): string {
  return value === undefined ? "" : `,"${name}":${jsonString(value)}`;
}

function quotedOrNull(text: string | null): string {
  return text === null ? "null" : `"${text}"`;
}

const quotedModel = rememberLast((model: string | null) => (model === null ? "null" : jsonString(model)));
const quotedAddress = rememberLast(jsonString);
