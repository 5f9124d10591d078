import { headers } from "../../contract/headers.js";
import type { Operation } from "../../contract/operations.js";
import { type CallContext, type Caller, Ended, leaving } from "../../domain/call-context.js";
import type { Core } from "../../domain/core.js";
import type { Clock, Logger } from "../../domain/ports.js";
import { ServiceError } from "../../domain/service-error.js";
import { errorOfThrown } from "../../domain/thrown-error.js";
import type { ResponseWatch } from "../../lib/response-watch.js";
import type { Exchange } from "./exchange.js";
import { readRequestTimeout } from "./request-timeout.js";

/** One call of the core that was opened, and the HTTP exchange that it answers. */
export interface Call {
  readonly exchange: Exchange;
  readonly ctx: CallContext;
  readonly signal: AbortSignal;
  /** To be called after every write of a stream. */
  touched(): void;
  /** Sets what is done when nothing was written for the keep-alive time. */
  whenSilent(run: () => void): void;
  /** What the caller is told of anything that was thrown while it was served; faults of ours are logged. */
  toError(thrown: unknown): ServiceError;
}

export interface CallDeps {
  readonly core: Pick<Core, "open">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly watch: ResponseWatch;
}

/**
 * Runs one call from its headers to the end of its answer. There is one AbortController per call, and a leave of the
 * client is seen through the response's `close`, which is listened to before `open`: during it the event would be
 * missed. Whatever happens, the call is answered once and its context closed.
 */
export async function runCall(
  { core, clock, log, watch }: CallDeps,
  exchange: Exchange,
  operation: Operation,
  serve: (call: Call) => Promise<void>,
): Promise<void> {
  const { req, res } = exchange;
  const abort = new AbortController();
  const timeout = readRequestTimeout(onlyValue(req.headers[headers.requestTimeout]));
  const deadlineAtMs = timeout instanceof ServiceError ? Number.POSITIVE_INFINITY : clock.now() + timeout;
  let ctx: CallContext | undefined;
  let isClosed = false;
  let onSilence = (): void => {};
  const watched = watch.watch(res, {
    stalled() {
      abort.abort(new Ended("stalled"));
      res.destroy();
    },
    silent: () => onSilence(),
  });
  res.once("close", () => {
    isClosed = true;
    watched.done();
    // `close` follows a good end, too.
    if (!res.writableFinished) abort.abort(leaving(ctx?.deadlineAtMs ?? deadlineAtMs, clock.now()));
    ctx?.close();
  });
  const { requestId } = exchange;
  const toError = (thrown: unknown): ServiceError => errorOfThrown(thrown, { signal: abort.signal, log, requestId });
  try {
    ctx = await core.open(operation, callerOf(exchange, deadlineAtMs, abort));
    if (isClosed) {
      ctx.close();
      return;
    }
    if (timeout instanceof ServiceError) throw timeout;
    await serve({
      exchange,
      ctx,
      signal: abort.signal,
      touched: () => watched.touched(),
      whenSilent(run) {
        onSilence = run;
      },
      toError,
    });
  } catch (thrown) {
    const error = toError(thrown);
    ctx?.refused(error);
    if (res.headersSent) res.destroy();
    else exchange.error(error);
  }
}

/** Printable ASCII, as HDR-5 asks of what is logged. */
const loggable = /^[\x20-\x7e]{1,512}$/;
const retryCount = /^\d{1,3}$/;

function callerOf({ req, requestId }: Exchange, deadlineAtMs: number, abort: AbortController): Caller {
  return {
    authorization: req.headers.authorization,
    deadlineAtMs,
    abort,
    transport: "openai",
    address: req.socket.remoteAddress ?? "",
    wants: "openai_bytes",
    requestId,
    clientRequestId: matching(loggable, onlyValue(req.headers[headers.clientRequestId])),
    retryCount: matching(retryCount, onlyValue(req.headers[headers.stainlessRetryCount])),
  };
}

function matching(pattern: RegExp, value: string | undefined): string | undefined {
  return value !== undefined && pattern.test(value) ? value : undefined;
}

/** Node joins repeated headers of these names with a comma; the type allows lists. */
function onlyValue(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(", ") : value;
}
