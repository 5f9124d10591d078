import type { Dispatcher } from "undici";
import type { Clock } from "../../../domain/call/ports.js";
import { EngineError } from "../../../domain/engine/engine.js";
import { createTurnBatch } from "../../../lib/clock.js";
import { type AnswerHeaders, InvalidResponse } from "../protocol/upstream-failure.js";
import type { ConnectionPool, PausableConnection, PausableRequest } from "./connection-pool.js";

/**
 * Receives one answer: `head`, then `data` any number of times, then `end`; or `fail` at any point. Each may call `cancel`.
 * `data` and `end` are called at the end of the turn of the event loop in which the bytes were read, for all exchanges
 * together.
 */
export interface AnswerReader {
  head(status: number, headers: AnswerHeaders): void;
  /** Returns whether the answer has begun: until then the deadline of the first byte applies to each silence. */
  data(chunk: Buffer): boolean;
  end(): void;
  /** A deadline has passed, the network failed or the answer is not valid HTTP. */
  fail(error: EngineError): void;
}

export interface ExchangeRequest {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: string | null;
}

export interface Deadlines {
  readonly connectMs: number;
  readonly firstByteMs: number;
  readonly idleMs: number;
  readonly totalMs: number;
}

/** Maximum number of 1xx answers before the final one. */
const informationalMax = 100;

/** Maximum connections that one request tries because the server closed the earlier ones while they were idle. */
const staleMax = 3;
/** A failure later than this does not count as a connection that was closed while it was idle. */
const staleWithinMs = 1_000;

/** Deliveries of what all exchanges have received in one turn of the event loop. */
const deliverLater = createTurnBatch();

/**
 * One HTTP request on a pooled connection, with four deadlines, which one timer per exchange checks. A read stores only its
 * time. A request is sent again if the server had closed the connection while it was idle.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly #pool: ConnectionPool;
  readonly #clock: Clock;
  readonly #request: ExchangeRequest;
  readonly #deadlines: Deadlines;
  readonly #reader: AnswerReader;
  readonly #startedAtMs: number;
  #controller: Dispatcher.DispatchController | null = null;
  #connection: PausableConnection | null = null;
  /** Number of bytes that the connection had read before this request. */
  #bytesReadBefore = 0;
  #staleCount = 0;
  #phase: "connect" | "first_byte" | "idle" = "connect";
  /** Time of the start of the phase or, if later, of the last read. */
  #sinceMs: number;
  /** Received and not delivered yet. */
  #received: Buffer[] = [];
  #isDeliveryDue = false;
  /** Whether the whole answer is received. The connection may then serve another exchange already. */
  #hasEnded = false;
  #isPaused = false;
  #isOver = false;
  #isDiscarding = false;
  #discardedBytes = 0;
  #hasHead = false;
  #informational = 0;
  #cancelTimer: () => void = () => {};
  /** Time from the start until `AnswerReader.data` first returned true; null: the answer has not begun. */
  firstByteMs: number | null = null;

  constructor(
    { pool, clock }: { readonly pool: ConnectionPool; readonly clock: Clock },
    request: ExchangeRequest,
    deadlines: Deadlines,
    reader: AnswerReader,
  ) {
    this.#pool = pool;
    this.#clock = clock;
    this.#request = request;
    this.#deadlines = deadlines;
    this.#reader = reader;
    this.#startedAtMs = clock.monotonic();
    this.#sinceMs = this.#startedAtMs;
  }

  start(): void {
    this.#arm(this.#startedAtMs);
    this.#dispatch();
  }

  /** Stops reading from the connection; data already read is delivered. Until `resume`, only the deadline `total` runs. */
  pause(): void {
    if (this.#isOver || this.#isPaused || this.#hasEnded) return;
    this.#isPaused = true;
    this.#connection?.pause();
  }

  resume(): void {
    if (this.#isOver || !this.#isPaused) return;
    this.#isPaused = false;
    this.#sinceMs = this.#clock.monotonic();
    this.#connection?.resume();
  }

  /** Closes the connection immediately; the reader receives no further calls. */
  cancel(): void {
    if (this.#finish() && !this.#hasEnded) this.#controller?.abort(new Error("cancelled"));
  }

  /** Discards the rest of an answer that is complete for the reader, up to a bound, so that the connection can be reused. */
  discardRest(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#isDiscarding = !this.#hasEnded;
    if (this.#hasEnded) this.#cancelTimer();
    if (this.#isPaused) this.#connection?.resume();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isOver) {
      controller.abort(new Error("cancelled before it was sent"));
      return;
    }
    this.#bytesReadBefore = this.#connection?.bytesRead ?? 0;
    this.#phase = "first_byte";
    this.#sinceMs = this.#clock.monotonic();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (this.#isOver) return;
    if (status < 200) {
      this.#informational += 1;
      if (this.#informational > informationalMax) this.#fail(new InvalidResponse("too many 1xx answers"));
      return;
    }
    this.#hasHead = true;
    this.#controller = controller;
    this.#reader.head(status, headers);
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isDiscarding) {
      this.#discardedBytes += chunk.length;
      if (this.#discardedBytes > discardedBytesMax) this.#stopDiscarding();
    }
    if (this.#isOver) return;
    this.#sinceMs = this.#clock.monotonic();
    this.#received.push(chunk);
    this.#deliverLater();
  }

  onResponseEnd(): void {
    this.#hasEnded = true;
    this.#isDiscarding = false;
    if (this.#isOver) {
      this.#cancelTimer();
      return;
    }
    this.resume();
    this.#deliverLater();
  }

  #deliverLater(): void {
    if (this.#isDeliveryDue) return;
    this.#isDeliveryDue = true;
    deliverLater(this.#deliver);
  }

  readonly #deliver = (): void => {
    this.#isDeliveryDue = false;
    try {
      this.#deliverReceived();
      if (this.#hasEnded && this.#finish()) this.#reader.end();
    } catch (error) {
      // It must not reach the other exchanges of the turn.
      this.#fail(new EngineError("internal", "the upstream's answer could not be processed", { cause: error }));
    }
  };

  #deliverReceived(): void {
    const received = this.#received;
    if (received.length === 0) return;
    this.#received = [];
    for (const chunk of received) {
      if (this.#isOver) return;
      const hasBegun = this.#reader.data(chunk);
      if (this.#phase === "idle" || !hasBegun) continue;
      this.#phase = "idle";
      this.firstByteMs = this.#clock.monotonic() - this.#startedAtMs;
    }
  }

  onRequestUpgrade(): void {
    this.#fail(new InvalidResponse("the upstream switched to another protocol"));
  }

  onResponseError(_: Dispatcher.DispatchController | null, error: Error): void {
    if (this.#isOver) this.#cancelTimer();
    else if (this.#wasStale(error)) {
      this.#staleCount += 1;
      this.#phase = "connect";
      this.#dispatch();
    } else this.#fail(networkError(error));
  }

  /** Whether the server closed a connection that had served others, before it read this request. */
  #wasStale(error: Error): boolean {
    return (
      this.#phase === "first_byte" &&
      !this.#hasHead &&
      this.#staleCount < staleMax &&
      this.#bytesReadBefore > 0 &&
      this.#connection?.bytesRead === this.#bytesReadBefore &&
      this.#clock.monotonic() - this.#sinceMs < staleWithinMs &&
      "code" in error &&
      disconnects.has(String(error.code))
    );
  }

  #dispatch(): void {
    const { method, path, headers, body } = this.#request;
    const onConnection = (connection: PausableConnection): void => {
      this.#connection = connection;
    };
    const request: PausableRequest = { method, path, headers, body, onConnection };
    try {
      this.#pool.dispatch(request, this);
    } catch (error) {
      // An invalid path or header, or a pool that is closed.
      this.#fail(new EngineError("upstream_error", "the request could not be sent", { cause: error }));
    }
  }

  /** Sets the timer for the next deadline, but not longer than the shortest one, because a new phase may end earlier. */
  #arm(nowMs: number): void {
    const { connectMs, firstByteMs, idleMs } = this.#deadlines;
    const shortestMs = Math.min(connectMs, firstByteMs, idleMs);
    const waitMs = Math.max(1, Math.min(this.#dueAtMs() - nowMs, shortestMs));
    this.#cancelTimer = this.#clock.after(Math.ceil(waitMs), () => this.#check());
  }

  #stopDiscarding(): void {
    this.#isDiscarding = false;
    this.#controller?.abort(new Error("the answer did not end"));
  }

  #check(): void {
    // The rest of the answer has not ended: at most the shortest deadline has passed since the answer was complete.
    if (this.#isDiscarding) this.#stopDiscarding();
    if (this.#isOver) return;
    const nowMs = this.#clock.monotonic();
    if (nowMs < this.#dueAtMs()) {
      this.#arm(nowMs);
      return;
    }
    const isTotal = nowMs >= this.#startedAtMs + this.#deadlines.totalMs;
    this.#fail(
      new EngineError("timeout", `the upstream exceeded the deadline '${isTotal ? "total" : this.#phase}'`, {
        retryable: true,
      }),
    );
  }

  #dueAtMs(): number {
    const { connectMs, firstByteMs, idleMs, totalMs } = this.#deadlines;
    const totalAtMs = this.#startedAtMs + totalMs;
    if (this.#isPaused) return totalAtMs;
    const limitMs = { connect: connectMs, first_byte: firstByteMs, idle: idleMs }[this.#phase];
    return Math.min(totalAtMs, this.#sinceMs + limitMs);
  }

  /** Fails after what was received before. */
  #fail(error: EngineError): void {
    this.#deliverReceived();
    if (!this.#finish()) return;
    if (!this.#hasEnded) this.#controller?.abort(error);
    this.#reader.fail(error);
  }

  /** Ends the exchange; false if it had already ended. */
  #finish(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#cancelTimer();
    if (this.#isPaused) this.#connection?.resume();
    return true;
  }
}

const discardedBytesMax = 64 * 1_024;

const disconnects = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

const timeouts = new Set(["UND_ERR_CONNECT_TIMEOUT", "ETIMEDOUT"]);

function networkError(error: Error): EngineError {
  const code = "code" in error ? String(error.code) : "";
  if (timeouts.has(code)) {
    return new EngineError("timeout", "no connection to the upstream in time", { retryable: true, cause: error });
  }
  // Codes of undici's parser and bounds: the server does not follow HTTP.
  const isInvalid = code.startsWith("HPE_") || code.startsWith("UND_ERR_RES") || code === "UND_ERR_HEADERS_OVERFLOW";
  if (isInvalid) return new InvalidResponse("the upstream's answer is not valid HTTP", { cause: error });
  return new EngineError("upstream_error", "the connection to the upstream failed", { retryable: true, cause: error });
}
