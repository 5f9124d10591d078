import type { IncomingMessage, ServerResponse } from "node:http";
import { headers } from "../../contract/headers.js";
import type { Operation } from "../../contract/operations.js";
import {
  type AnswerHead,
  type CallContext,
  type Caller,
  Ended,
  errorOfThrown,
  leaving,
} from "../../domain/call/call-context.js";
import type { Clock, Logger } from "../../domain/call/ports.js";
import type { LimitSnapshot } from "../../domain/call/rate-limits.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { Core } from "../../domain/core.js";
import { addAnswerHeaders } from "../../domain/metering/limit-response.js";
import { AbortSource } from "../../lib/abort-source.js";
import { createTurnEnd } from "../../lib/clock.js";
import { JsonText } from "../../lib/json-string.js";
import { answerAndLinger, errorHead, type ResponseWatch, type Watched, writeText } from "./answer.js";
import { pathOf } from "./routes.js";

export interface CallDeps {
  readonly core: Pick<Core, "open">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly watch: ResponseWatch;
}

/** The calls whose heads were read in one turn of the event loop are served together. */
const endOfTurn = createTurnEnd();

/**
 * One call of the core on the HTTP listener, from its headers to the end of its answer. The response's `close` event shows
 * that the client has disconnected. Its listener is added before `open`, so that an event during `open` is not missed.
 */
export class Call {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly requestId: string;
  /** Aborted when the call must end. For libraries that need an AbortSignal there is `ctx.signal`. */
  readonly signal = new AbortSource();
  /** The client's own deadline; Infinity when it set none. */
  readonly deadlineAtMs: number;
  /** Called when nothing was written for the keep-alive time. */
  onSilence: (() => void) | undefined;
  readonly #deps: CallDeps;
  #ctx: CallContext | undefined;
  #watched: Watched | undefined;
  #isClosed = false;

  constructor(deps: CallDeps, req: IncomingMessage, res: ServerResponse, requestId: string, timeoutMs: number) {
    this.#deps = deps;
    this.req = req;
    this.res = res;
    this.requestId = requestId;
    this.deadlineAtMs = timeoutMs === Number.POSITIVE_INFINITY ? timeoutMs : deps.clock.now() + timeoutMs;
    res.on("close", () => this.#closed());
  }

  get ctx(): CallContext {
    if (this.#ctx === undefined) throw new Error("the call was not opened");
    return this.#ctx;
  }

  /**
   * Opens the call on its headers, then serves it. In all cases it is answered exactly once and its context is closed.
   * `refuse` is not called after an answer has begun.
   */
  async run(
    operation: Operation,
    caller: Caller,
    serve: () => Promise<void>,
    refuse: (error: ServiceError) => void,
  ): Promise<void> {
    try {
      const opened = this.#deps.core.open(operation, caller);
      this.#ctx = opened instanceof Promise ? await opened : opened;
      // Meanwhile Node delivers a body that came with the head, for a synchronous read.
      await endOfTurn();
      if (this.#isClosed) {
        this.#ctx.close();
        return;
      }
      await serve();
    } catch (thrown) {
      const error = this.failed(thrown);
      if (this.res.headersSent) this.res.destroy();
      else refuse(error);
    }
    // A complete answer is watched only if it waits for its reader.
    if (!this.res.writableFinished) this.watch();
  }

  /**
   * Call before an answer is written in parts: from then on a stalled reader ends the call. `isSending`: whether the last
   * write waits for the reader, if the response itself does not show it.
   */
  watch(isSending?: () => boolean): void {
    if (this.#isClosed || this.#watched !== undefined) return;
    this.#watched = this.#deps.watch.watch(this.res, {
      stalled: () => {
        this.signal.abort(new Ended("stalled"));
        this.res.destroy();
      },
      silent: () => this.onSilence?.(),
      ...(isSending === undefined ? {} : { isSending }),
    });
  }

  /** Call after every write of an answer in parts. */
  touched(): void {
    this.#watched?.touched();
  }

  /** The error for anything that was thrown while the call was served; internal errors are logged. */
  toError(thrown: unknown): ServiceError {
    return errorOfThrown(thrown, { signal: this.signal, log: this.#deps.log, requestId: this.requestId });
  }

  /** Records how the call failed, and returns the error for the client. */
  failed(thrown: unknown): ServiceError {
    const error = this.toError(thrown);
    this.#ctx?.refused(error);
    return error;
  }

  #closed(): void {
    this.#isClosed = true;
    this.#watched?.done();
    // The event `close` is also emitted after a successful end.
    if (!this.res.writableFinished) {
      this.signal.abort(leaving(this.#ctx?.deadlineAtMs ?? this.deadlineAtMs, this.#deps.clock.now()));
    }
    this.#ctx?.close();
  }
}

/** Printable ASCII (HDR-5). */
const printableId = /^[\x20-\x7e]{1,512}$/;
const retryCount = /^\d{1,3}$/;

/**
 * The caller of a call, from its headers or its gRPC metadata. One function for all protocols, so that all apply the same
 * rules to client text that enters the log: text in an unexpected form may be a secret and is dropped. `facts` do not come
 * from headers. `keyHeader` names a header with the bare key, which is read if `authorization` is absent.
 */
export function callerFromHeaders(
  header: (name: string) => string | undefined,
  facts: Pick<Caller, "deadlineAtMs" | "abort" | "transport" | "address" | "browser" | "requestId" | "isForwarded">,
  keyHeader?: string,
): Caller {
  const authorization = header("authorization");
  const key = authorization === undefined && keyHeader !== undefined ? header(keyHeader) : undefined;
  return {
    authorization: key === undefined ? authorization : `Bearer ${key}`,
    deadlineAtMs: facts.deadlineAtMs,
    abort: facts.abort,
    transport: facts.transport,
    address: facts.address,
    browser: facts.browser,
    requestId: facts.requestId,
    isForwarded: facts.isForwarded,
    refusesFallbacks: header(headers.fallback)?.trim().toLowerCase() === "off",
    clientRequestId: matching(printableId, header(headers.clientRequestId)),
    retryCount: matching(retryCount, header(headers.stainlessRetryCount)),
    traceparent: header(headers.traceparent),
  };
}

function matching(form: RegExp, text: string | undefined): string | undefined {
  return text !== undefined && form.test(text) ? text : undefined;
}

/** A header of an HTTP/1.1 request as one text. Node joins repeated headers with a comma; its type allows lists. */
export function headerOf({ headers: sent }: IncomingMessage, name: string): string | undefined {
  const value = sent[name];
  return Array.isArray(value) ? value.join(", ") : value;
}

const seconds = /^\d{1,9}(?:\.\d{1,9})?$/;

/**
 * The client's own deadline from `x-request-timeout`, in seconds: a duration in milliseconds, Infinity when the client
 * set none, or the error to answer with once the caller is authorized.
 */
export function readRequestTimeout(header: string | undefined): number | ServiceError {
  if (header === undefined) return Number.POSITIVE_INFINITY;
  const timeoutMs = seconds.test(header) ? Number(header) * 1000 : 0;
  if (timeoutMs > 0) return timeoutMs;
  const message = `Invalid header '${headers.requestTimeout}': expected a number of seconds above 0, such as 2.5.`;
  return new ServiceError("invalid_value", message, { param: headers.requestTimeout });
}

/** Common properties of the calls and answers of one API family, such as OpenAI's. */
export interface ApiFamily {
  /** Name of the transport in logs, metrics and traces. */
  readonly transport: Caller["transport"];
  /** Header with the bare key, for requests without `authorization`. Absent: the family has none. */
  readonly keyHeader?: string;
  /** Adds the headers of every answer to `own`; names and values in turn. */
  addHeaders(own: string[], requestId: string, processingMs: number): void;
  /** Adds the family's own headers for the caller's limits, in addition to `x-ratelimit-*`. Absent: it has none. */
  addLimitHeaders?(own: string[], limits: LimitSnapshot, nowMs: number): void;
  /** The status of an error. Absent: the one in the table of errors. */
  statusOf?(error: ServiceError): number;
  /** The JSON body of an error. */
  errorToJson(error: ServiceError, requestId: string): object;
}

/** One HTTP request and its answer in JSON or SSE. It writes every answer of an API family, with the family's headers. */
export class Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** Path as it was received, without the query. */
  readonly path: string;
  /** The request's id, which is the same in the header, the log and the usage. */
  readonly requestId: string;
  readonly #family: ApiFamily;
  readonly #startedAtMs: number;
  readonly #clock: Clock;
  #head: AnswerHead | null = null;

  constructor(req: IncomingMessage, res: ServerResponse, requestId: string, family: ApiFamily, clock: Clock) {
    this.req = req;
    this.res = res;
    this.path = pathOf(req);
    this.requestId = requestId;
    this.#family = family;
    this.#clock = clock;
    this.#startedAtMs = clock.monotonic();
  }

  /** Call before the answer to an admitted request: its headers report the deployment and the rate limits (wire RL-1). */
  report(head: AnswerHead): void {
    this.#head = head;
  }

  /**
   * Adds the headers of every answer (HDR-1 to HDR-3) to `own` and returns it; names and values in turn. Security headers
   * are added by the listener, to the answers of all transports.
   */
  headers(own: string[]): string[] {
    const processingMs = Math.max(0, Math.round(this.#clock.monotonic() - this.#startedAtMs));
    this.#family.addHeaders(own, this.requestId, processingMs);
    if (this.#head !== null) {
      addAnswerHeaders(own, this.#head);
      this.#addLimitHeaders(own, this.#head.limits);
    }
    return own;
  }

  #addLimitHeaders(own: string[], limits: LimitSnapshot | undefined): void {
    if (limits !== undefined) this.#family.addLimitHeaders?.(own, limits, this.#clock.now());
  }

  /** Answers with a whole JSON body; a string or bytes must already be JSON. */
  json(status: number, body: object | string | JsonText): void {
    const { req, res } = this;
    if (res.headersSent || res.destroyed) return;
    if (body instanceof Uint8Array) {
      res.writeHead(status, this.jsonHeaders("content-length", `${body.byteLength}`));
      res.end(req.method === "HEAD" ? undefined : body);
      return;
    }
    const isJsonText = body instanceof JsonText;
    const text = isJsonText ? body.text : typeof body === "string" ? body : JSON.stringify(body);
    const bytes = isJsonText && body.isAscii ? text.length : Buffer.byteLength(text);
    res.writeHead(status, this.jsonHeaders("content-length", `${bytes}`));
    if (req.method !== "HEAD" && bytes > 0) writeText(res, text, bytes);
    res.end();
  }

  /** Answers with an error, even while the request's body still arrives. Does nothing after an answer has begun. */
  error(error: ServiceError): void {
    const { status, headers } = errorHead(error);
    const own = Object.entries(headers).flat();
    this.#addLimitHeaders(own, error.limits);
    const body = JSON.stringify(this.errorToJson(error));
    answerAndLinger(this.req, this.res, this.#family.statusOf?.(error) ?? status, this.jsonHeaders(...own), body);
  }

  errorToJson(error: ServiceError): object {
    return this.#family.errorToJson(error, this.requestId);
  }

  jsonHeaders(...own: string[]): string[] {
    return this.headers(["content-type", "application/json", ...own]);
  }
}
