import { headers } from "../../contract/headers.js";
import type { Operation } from "../../contract/operations.js";
import { type CallContext, type Caller, Ended, errorOfThrown, leaving } from "../../domain/call/call-context.js";
import type { Clock, Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { Core } from "../../domain/core.js";
import { LazyAbort, type StopSignal } from "../../lib/lazy-abort.js";
import type { ResponseWatch, Watched } from "../../lib/response-watch.js";
import type { Exchange } from "./exchange.js";
import { readRequestTimeout } from "./request-timeout.js";

export interface CallDeps {
  readonly core: Pick<Core, "open">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly watch: ResponseWatch;
}

/**
 * One call of the core, from its headers to the end of its answer, and the HTTP exchange that it answers. A leave of the
 * client is seen through the response's `close`, which is listened to before `open`: during it the event would be
 * missed.
 */
export class Call {
  readonly exchange: Exchange;
  readonly abort = new LazyAbort();
  /** The client's own deadline; Infinity when it set none, or none that can be read. */
  readonly deadlineAtMs: number;
  /** What is wrong with the client's deadline. */
  readonly #timeoutFault: ServiceError | null;
  readonly #deps: CallDeps;
  #ctx: CallContext | undefined;
  #watched: Watched | undefined;
  #onSilence: (() => void) | undefined;
  #isClosed = false;

  constructor(deps: CallDeps, exchange: Exchange) {
    const timeout = readRequestTimeout(onlyValue(exchange.req.headers[headers.requestTimeout]));
    this.#timeoutFault = timeout instanceof ServiceError ? timeout : null;
    this.deadlineAtMs =
      timeout instanceof ServiceError || timeout === Number.POSITIVE_INFINITY
        ? Number.POSITIVE_INFINITY
        : deps.clock.now() + timeout;
    this.#deps = deps;
    this.exchange = exchange;
    exchange.res.on("close", () => this.#closed());
  }

  get ctx(): CallContext {
    if (this.#ctx === undefined) throw new Error("the call was not opened");
    return this.#ctx;
  }

  /** Aborted when the call must end. Libraries take `ctx.signal`. */
  get signal(): StopSignal {
    return this.abort;
  }

  /** The core let the call in. False when the client had left meanwhile. Throws ServiceError for the client's deadline. */
  opened(ctx: CallContext): boolean {
    this.#ctx = ctx;
    if (this.#isClosed) ctx.close();
    else if (this.#timeoutFault !== null) throw this.#timeoutFault;
    return !this.#isClosed;
  }

  /** To be called before an answer is written in parts: from now on somebody looks whether it is read. */
  watch(): void {
    const { res } = this.exchange;
    if (this.#isClosed || this.#watched !== undefined) return;
    this.#watched = this.#deps.watch.watch(res, {
      stalled: () => {
        this.abort.abort(new Ended("stalled"));
        res.destroy();
      },
      silent: () => this.#onSilence?.(),
    });
  }

  /** To be called after every write of a stream. */
  touched(): void {
    this.#watched?.touched();
  }

  /** Sets what is done when nothing was written for the keep-alive time. */
  whenSilent(run: () => void): void {
    this.#onSilence = run;
  }

  /** An answer was written as a whole. It needs a look only if it waits for its reader. */
  written(): void {
    if (!this.exchange.res.writableFinished) this.watch();
  }

  /** What the caller is told of anything that was thrown while it was served; faults of ours are logged. */
  toError(thrown: unknown): ServiceError {
    const { requestId } = this.exchange;
    return errorOfThrown(thrown, { signal: this.abort, log: this.#deps.log, requestId });
  }

  /** Answers with what was thrown, unless an answer has begun. */
  failed(thrown: unknown): void {
    const { res } = this.exchange;
    const error = this.toError(thrown);
    this.#ctx?.refused(error);
    if (res.headersSent) res.destroy();
    else this.exchange.error(error);
  }

  #closed(): void {
    this.#isClosed = true;
    this.#watched?.done();
    // `close` follows a good end, too.
    if (!this.exchange.res.writableFinished) {
      this.abort.abort(leaving(this.#ctx?.deadlineAtMs ?? this.deadlineAtMs, this.#deps.clock.now()));
    }
    this.#ctx?.close();
  }
}

/** Runs one call. Whatever happens, it is answered once and its context closed. */
export async function runCall(
  deps: CallDeps,
  exchange: Exchange,
  operation: Operation,
  serve: (call: Call) => Promise<void>,
): Promise<void> {
  const call = new Call(deps, exchange);
  try {
    // Waited for in any case: meanwhile Node hands over the body that came with the head, and it can be read at once.
    if (!call.opened(await deps.core.open(operation, callerOf(call)))) return;
    await serve(call);
  } catch (thrown) {
    call.failed(thrown);
  }
  call.written();
}

/** Printable ASCII, as HDR-5 asks of what is logged. */
const loggable = /^[\x20-\x7e]{1,512}$/;
const retryCount = /^\d{1,3}$/;

function callerOf({ exchange, deadlineAtMs, abort }: Call): Caller {
  const { req, requestId } = exchange;
  return {
    authorization: req.headers.authorization,
    deadlineAtMs,
    abort,
    transport: "openai",
    address: req.socket.remoteAddress ?? "",
    requestId,
    clientRequestId: matching(loggable, onlyValue(req.headers[headers.clientRequestId])),
    retryCount: matching(retryCount, onlyValue(req.headers[headers.stainlessRetryCount])),
    traceparent: onlyValue(req.headers[headers.traceparent]),
  };
}

function matching(pattern: RegExp, value: string | undefined): string | undefined {
  return value !== undefined && pattern.test(value) ? value : undefined;
}

/** Node joins repeated headers of these names with a comma; the type allows lists. */
function onlyValue(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(", ") : value;
}
