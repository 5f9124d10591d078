import { type ErrorCode, errorRow } from "../contract/errors.js";
import type { Operation } from "../contract/operations.js";
import type { StopSignal } from "../lib/lazy-abort.js";
import type { Principal } from "./access/principal.js";
import { type CallContext, type Caller, Ended, type EndReason, endReasonOf } from "./call-context.js";
import type { LiveRequest, LiveRequests, Stage } from "./live-requests.js";
import type { Clock, Logger } from "./ports.js";
import { RequestLog } from "./request-log.js";
import type { ServiceError } from "./service-error.js";
import type { UsageTotal } from "./usage/usage-tally.js";

/** What a call is made of: decided by `core.open`. */
export interface CallFacts {
  readonly requestId: string;
  readonly operation: Operation;
  readonly principal: Principal;
  readonly caller: Caller;
  readonly receivedAtMs: number;
  readonly deadlineAtMs: number;
}

export interface CallDeps {
  readonly clock: Clock;
  readonly live: LiveRequests;
  readonly log: Logger;
  /** Charges a refused request one request, in the background (state RL-14). */
  readonly chargeRefused: (call: Call) => void;
}

interface Outcome {
  readonly why: EndReason;
  readonly error: ErrorCode | null;
  readonly usage: UsageTotal | null;
}

/** One call between `open` and `close`: the context that doors hold, and the entry in the list of live requests. */
export class Call implements CallContext, LiveRequest {
  readonly requestId: string;
  readonly operation: Operation;
  readonly principal: Principal;
  /** The call's end for whoever only needs to know of it; `signal` makes an AbortSignal of it. */
  readonly stop: StopSignal;
  readonly receivedAtMs: number;
  readonly deadlineAtMs: number;
  readonly wants: "messages" | "openai_bytes";
  readonly #deps: CallDeps;
  readonly #caller: Caller;
  readonly #cancelDeadline: () => void;
  #stage: Stage = "receiving";
  #model: string | null = null;
  #outcome: Outcome | null = null;
  #queueMs = 0;
  #closed = false;
  #holds = 0;

  constructor(deps: CallDeps, facts: CallFacts) {
    this.requestId = facts.requestId;
    this.operation = facts.operation;
    this.principal = facts.principal;
    this.stop = facts.caller.abort;
    this.receivedAtMs = facts.receivedAtMs;
    this.deadlineAtMs = facts.deadlineAtMs;
    this.wants = facts.caller.wants;
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

  get model(): string | null {
    return this.#model;
  }

  get stage(): Stage {
    return this.#stage;
  }

  enter(stage: Stage): void {
    this.#stage = stage;
  }

  chose(model: string): void {
    this.#model = model;
  }

  waited(queueMs: number): void {
    this.#queueMs = queueMs;
  }

  abort(why: EndReason): void {
    this.#caller.abort.abort(new Ended(why));
  }

  refused(error: ServiceError): void {
    if (this.#outcome !== null) return;
    this.ended("failed", error.code, null);
    if (isChargeable(error)) this.#deps.chargeRefused(this);
  }

  /** Notes how the call went, for its line in the log; the first outcome counts. */
  ended(why: EndReason, error: ErrorCode | null, usage: UsageTotal | null): void {
    this.#outcome ??= { why, error, usage };
  }

  /** An admitted run keeps the call among the live ones until it is settled and lets go. */
  hold(): void {
    this.#holds += 1;
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
    this.#deps.live.remove(this.requestId);
    this.#writeLogLine();
  }

  /** One line per call: who, what, how it ended. No content, no key (SEC-18). */
  #writeLogLine(): void {
    const why = this.stop.aborted ? endReasonOf(this.stop) : "completed";
    const outcome = this.#outcome ?? { why, error: null, usage: null };
    this.#deps.log.info(
      {
        request_id: this.requestId,
        operation: this.operation,
        transport: this.#caller.transport,
        account: this.principal.account,
        key_id: this.principal.keyId,
        model: this.#model,
        outcome: outcome.why,
        error: outcome.error,
        prompt_tokens: outcome.usage?.promptTokens,
        completion_tokens: outcome.usage?.completionTokens,
        queue_ms: Math.round(this.#queueMs),
        duration_ms: this.#deps.clock.now() - this.receivedAtMs,
        client_request_id: this.#caller.clientRequestId,
        retry_count: this.#caller.retryCount,
        address: this.#caller.address,
      },
      "request",
    );
  }
}

/** Whether a refusal is the request's own fault. */
function isChargeable(error: ServiceError): boolean {
  const { http } = errorRow(error.code);
  return http === 400 || http === 404 || http === 413 || http === 415;
}
