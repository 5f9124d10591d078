import { type ErrorCode, errorRow } from "../../contract/errors.js";
import type { Operation } from "../../contract/operations.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import {
  type Browser,
  type CallContext,
  type Caller,
  Ended,
  type EndReason,
  endReasonOf,
  errorOfEnd,
} from "./call-context.js";
import type { LiveRequest, LiveRequests, Stage } from "./live-requests.js";
import { CallDetails, type CallEnd, CallTimes, type CallTracer, type Observer, parseTraceparent } from "./observer.js";
import type { Clock, Logger } from "./ports.js";
import type { Principal } from "./principal.js";
import { CallEntry, type ClientLabels, RequestLog } from "./request-log.js";
import type { ServiceError } from "./service-error.js";
import type { UsageTally, UsageTotal } from "./usage-tally.js";

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
