import {
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  ServerResponse,
  STATUS_CODES,
} from "node:http";
import type { Duplex, Readable } from "node:stream";
import { errorRow } from "../../contract/errors.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { retryAdvice, retryHeaders, ServiceError } from "../../domain/call/service-error.js";
import { limitHeaders } from "../../domain/metering/limit-response.js";
import { createSampler, createSystemClock } from "../../lib/clock.js";
import type { Placed } from "../../lib/collections.js";
import { freeBuffer } from "./free-buffer.js";

type Headers = OutgoingHttpHeaders | OutgoingHttpHeader[];

/**
 * A response with headers that are part of every answer (`marks`). They are added when the head is written: with `setHeader`,
 * Node would merge two sets of headers for every answer, which is slow.
 */
export class MarkedResponse extends ServerResponse {
  /** Names and values alternate. A transport must not set one of them, else both lines are sent. */
  marks: readonly OutgoingHttpHeader[] = [];

  override writeHead(status: number, message?: string | Headers, headers?: Headers): this {
    if (typeof message === "string") return super.writeHead(status, message, marked(this.marks, headers));
    return super.writeHead(status, marked(this.marks, message ?? headers));
  }
}

/** Adds the marks to a list of headers. Not a private method, which would add a field to every response. */
function marked(marks: readonly OutgoingHttpHeader[], headers: Headers = []): OutgoingHttpHeader[] {
  const all = Array.isArray(headers) ? headers : listOf(headers);
  for (const mark of marks) all.push(mark);
  return all;
}

function listOf(headers: OutgoingHttpHeaders): OutgoingHttpHeader[] {
  return Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [name, value]));
}

/**
 * Writes text of `bytes` bytes at once, with the head if that was not sent yet, as one piece while the socket is corked:
 * `end(text)` would make Node send the text and an empty write with a slower vectored write. A caller with binary data passes
 * it decoded as Latin-1. `sent` is called when the kernel has taken the text.
 */
export function writeText(res: ServerResponse, text: string, bytes: number, sent?: () => void): void {
  const { socket } = res;
  socket?.cork();
  // Node allocates three bytes for each character of a text in UTF-8. One byte per character is copied as Latin-1.
  res.write(text, bytes === text.length ? "latin1" : "utf8", sent);
  socket?.uncork();
}

/** The status and the headers of an error that are the same in every API family. */
export function errorHead(error: ServiceError): { status: number; headers: Readonly<Record<string, string>> } {
  return {
    status: errorRow(error.code).http,
    headers: { ...retryHeaders(retryAdvice(error)), ...limitHeaders(error) },
  };
}

/** The error for a fault that Node's HTTP parser or its timers found. */
export function errorOfParser(code: string | undefined): ServiceError {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new ServiceError("request_headers_too_large", "The request's headers are too large.");
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new ServiceError("request_timeout", "The request arrived too slowly.");
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new ServiceError("request_too_large", "The chunk extensions of the body are too large.");
    default:
      return new ServiceError("invalid_value", "The request is not valid HTTP/1.1.");
  }
}

/**
 * How long and how much of an unwanted body is read and discarded before its connection is closed, and how many bodies are
 * discarded at the same time. One more ends the oldest: each holds about 128 KiB, and a flood may open hundreds in a second.
 */
const lingerLimits = { ms: 1_000, bytes: 32 * 1024 * 1024, bodies: 64 } as const;
/** Ends the discarding of each body, the oldest first. */
const lingering = new Set<() => void>();

/**
 * Answers a request whose body may still be arriving. If the connection were closed immediately, a client that reads only
 * after it has sent everything would get a broken pipe instead of the answer. So the answer has a content-length, the body
 * is discarded within lingerLimits, and then the connection is closed.
 */
export function answerAndLinger(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  headers: Headers,
  body: string | Uint8Array,
): void {
  if (res.destroyed || res.headersSent) return;
  const pending = isBodyPending(req);
  if (pending) res.shouldKeepAlive = false;
  const list = Array.isArray(headers) ? headers : listOf(headers);
  res.writeHead(status, [...list, "content-length", Buffer.byteLength(body)]);
  const content = req.method === "HEAD" ? "" : body;
  // A client that still waits for "100 Continue" does not send.
  if (!pending || req.headers.expect !== undefined) {
    res.end(content);
    return;
  }
  if (content.length > 0) res.write(content);
  else res.flushHeaders();
  discard(req, ["end", "close"], () => res.end());
}

/** Whether the request has a body that was not received completely. */
function isBodyPending(req: IncomingMessage): boolean {
  // A request without a body is not `complete` yet while its own listener runs.
  return !req.complete && (req.headers["transfer-encoding"] !== undefined || Number(req.headers["content-length"]) > 0);
}

/** Reads and discards within lingerLimits, until one of the events. Then calls `done`, once. */
function discard(body: Readable, until: readonly ("end" | "close")[], done: () => void): void {
  let bytes = 0;
  const finish = (): void => {
    clearTimeout(timer);
    lingering.delete(finish);
    body.off("data", count);
    for (const event of until) body.off(event, finish);
    discardPace.leave(body);
    done();
  };
  const timer = setTimeout(finish, lingerLimits.ms).unref();
  const count = (chunk: Buffer): void => {
    const { length } = chunk;
    freeBuffer(chunk);
    bytes += length;
    if (bytes > lingerLimits.bytes) finish();
    else discardPace.took(body, length);
  };
  for (const event of until) body.once(event, finish);
  body.on("data", count).resume();
  lingering.add(finish);
  const [oldest] = lingering;
  if (lingering.size > lingerLimits.bodies) oldest?.();
}

/**
 * Bytes that all connections together may discard in one window: 50 MB a second. Each read is memory outside the heap, and V8
 * collects the whole heap for every 64 MB of it.
 */
const windowBytes = 512 * 1024;
const windowMs = 10;

/** A body that is being discarded. */
interface Discarded {
  pause(): unknown;
  resume(): unknown;
}

/**
 * Bounds the rate at which unwanted bodies are discarded: unread bytes slow their senders down. When bodies wait, they take
 * turns of one read, and only one of them is resumed at a time. If all were resumed at once, each would be read at least once.
 */
export class DiscardPace {
  readonly #after: (ms: number, run: () => void) => unknown;
  /** In the order in which they were paused. */
  readonly #paused = new Set<Discarded>();
  #left = windowBytes;
  #isOpen = false;

  /** `after` calls a function once, after milliseconds. */
  constructor(after: (ms: number, run: () => void) => unknown) {
    this.#after = after;
  }

  /** Call when bytes of the body were discarded. Pauses the body if others wait, or if this window is used up. */
  took(body: Discarded, bytes: number): void {
    this.#openWindow();
    this.#left -= bytes;
    if (this.#left > 0 && this.#paused.size === 0) return;
    body.pause();
    this.#paused.add(body);
    if (this.#left > 0) this.#resumeNext();
  }

  /** Call when the body is not read any more. */
  leave(body: Discarded): void {
    this.#paused.delete(body);
  }

  #openWindow(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#after(windowMs, () => this.#endWindow());
  }

  #endWindow(): void {
    this.#isOpen = false;
    this.#left = windowBytes;
    this.#resumeNext();
    // The resumed body may have nothing to read: then the next one has its turn when this window ends.
    if (this.#paused.size > 0) this.#openWindow();
  }

  #resumeNext(): void {
    const [next] = this.#paused;
    if (next === undefined) return;
    this.#paused.delete(next);
    next.resume();
  }
}

const discardPace = new DiscardPace(createSystemClock().after);

/**
 * Answers with JSON when no request object exists because the head of the request is malformed, then closes the connection.
 * Bytes that still arrive are discarded within lingerLimits: closing immediately would reset the connection before the client
 * has read the answer.
 */
export function answerRaw(
  socket: Duplex,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
): void {
  const all = { ...headers, "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  const lines = Object.entries({ ...all, connection: "close" }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n${body}`);
  // Not until "end": a client may close its side before it has read the answer.
  discard(socket, ["close"], () => socket.destroy());
}

/** Callbacks for one watched response. */
interface WatchedEvents {
  /** The reader has read nothing for `stallMs` although bytes wait for it. Called once. */
  stalled(): void;
  /** Nothing was written for `sseKeepAliveMs`. Called again after every further `sseKeepAliveMs` of silence. */
  silent?(): void;
  /** Whether the last write waits for the reader, although it is too short for the response to emit `drain`. */
  isSending?(): boolean;
}

export type ResponseWatch = ReturnType<typeof createResponseWatch>;
export type Watched = ReturnType<ResponseWatch["watch"]>;

/** Bounds of the interval of the checks; callbacks are late by at most the interval. */
const checkMs = { min: 5, max: 1_000 } as const;

/**
 * Finds stalled readers and silent streams with one timer for all responses: a timer per token or per response would cost
 * more than the tokens. `now`: monotonic milliseconds. Changed limits apply to responses that are watched already.
 */
export function createResponseWatch(limits: Pick<ServiceLimits, "stallMs" | "sseKeepAliveMs">, now: () => number) {
  interface Entry extends Placed {
    readonly res: ServerResponse;
    readonly on: WatchedEvents;
    readonly drained: () => void;
    /** Time of the first check that found the response waiting for its reader; null: it does not wait. */
    blockedSinceMs: number | null;
    touchedAtMs: number;
  }

  const intervalMs = (): number =>
    Math.max(checkMs.min, Math.min(checkMs.max, limits.stallMs / 4, limits.sseKeepAliveMs / 4));
  const entries = createSampler<Entry>(intervalMs, (entry) => {
    const nowMs = now();
    if (!isWaiting(entry)) entry.blockedSinceMs = null;
    else if (entry.blockedSinceMs === null) entry.blockedSinceMs = nowMs;
    else if (nowMs - entry.blockedSinceMs >= limits.stallMs) {
      release(entry);
      entry.on.stalled();
      return;
    }
    if (nowMs - entry.touchedAtMs >= limits.sseKeepAliveMs) {
      entry.touchedAtMs = nowMs;
      entry.on.silent?.();
    }
  });

  function release(entry: Entry): void {
    entry.res.off("drain", entry.drained);
    entries.delete(entry);
  }

  return {
    watch(res: ServerResponse, on: WatchedEvents) {
      // If the response drains and fills again between two checks, the reader is slow but not stalled.
      const drained = (): void => {
        entry.blockedSinceMs = null;
      };
      const entry: Entry = { res, on, drained, blockedSinceMs: null, touchedAtMs: now(), place: 0 };
      res.on("drain", drained);
      entries.add(entry);
      return {
        /** Something was written, because the reader was not behind: restarts the silence interval. */
        touched() {
          entry.touchedAtMs = now();
          entry.blockedSinceMs = null;
        },
        /** Ends the watch. */
        done: () => release(entry),
      };
    },
    /** Number of responses being watched. */
    get size() {
      return entries.size;
    },
    close: () => entries.close(),
  };
}

/** An ended response emits no more `drain`, but its last bytes may still wait for the reader. */
function isWaiting({ res, on }: { readonly res: ServerResponse; readonly on: WatchedEvents }): boolean {
  if (res.writableEnded) return !res.writableFinished;
  return res.writableNeedDrain || on.isSending?.() === true;
}
