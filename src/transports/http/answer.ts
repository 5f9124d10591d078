import {
  type IncomingMessage,
  ServerResponse as NodeResponse,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  type ServerResponse,
  STATUS_CODES,
} from "node:http";
import type { Duplex } from "node:stream";
import { errorRow } from "../../contract/errors.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { retryAdvice, retryHeaders, type ServiceError } from "../../domain/call/service-error.js";
import { limitHeaders } from "../../domain/metering/limit-response.js";
import { createSampler } from "../../lib/sampler.js";

/**
 * A response that carries certain headers whatever is answered. They join the head when it is written: `setHeader` would
 * send every answer through Node's slow merge of two sets of headers.
 */
export class MarkedResponse<R extends IncomingMessage = IncomingMessage> extends NodeResponse<R> {
  /** Names and values in turn; none that a transport sets itself: both lines would be sent. */
  marks: readonly OutgoingHttpHeader[] = [];

  override writeHead(
    status: number,
    message?: string | OutgoingHttpHeaders | OutgoingHttpHeader[],
    headers?: OutgoingHttpHeaders | OutgoingHttpHeader[],
  ): this {
    if (typeof message === "string") return super.writeHead(status, message, marked(this.marks, headers));
    return super.writeHead(status, marked(this.marks, message ?? headers));
  }
}

/** Adds the marks to a list of headers. A function: a private method would add a field to every response. */
function marked(
  marks: readonly OutgoingHttpHeader[],
  headers: OutgoingHttpHeaders | OutgoingHttpHeader[] | undefined,
): OutgoingHttpHeader[] {
  if (headers === undefined) return [...marks];
  const all = Array.isArray(headers) ? headers : listOf(headers);
  for (const mark of marks) all.push(mark);
  return all;
}

function listOf(headers: OutgoingHttpHeaders): OutgoingHttpHeader[] {
  const list: OutgoingHttpHeader[] = [];
  for (const [name, value] of Object.entries(headers)) if (value !== undefined) list.push(name, value);
  return list;
}

/**
 * Ends a response whose head was written with its whole body. `end(body)` alone would make Node gather the answer and an
 * empty write after it into a vector, which costs more than sending the answer does; so the body is written, with its
 * head before it, as one piece of text while the socket is corked by us.
 */
export function endWhole(res: ServerResponse, body: string | Uint8Array, encoding: "latin1" | "utf8"): void {
  const { socket } = res;
  if (body.length > 0) {
    socket?.cork();
    res.write(body, encoding);
    socket?.uncork();
  }
  res.end();
}

/** The status and the headers of an error, the same in every API family. */
export function errorHead(error: ServiceError): { status: number; headers: Readonly<Record<string, string>> } {
  return {
    status: errorRow(error.code).http,
    headers: { ...retryHeaders(retryAdvice(error)), ...limitHeaders(error) },
  };
}

/** How much of an unwanted body is discarded before the connection is closed while the client still sends. */
const lingerLimits = { ms: 1_000, bytes: 32 * 1024 * 1024 } as const;

/**
 * Answers a request whose body may still be arriving. A client that sends everything before it reads would see a broken
 * pipe instead of the answer if the connection were closed at once: so the answer is complete by its content-length, the
 * body is discarded within lingerLimits, and then the connection is closed.
 */
export function answerAndLinger(
  req: IncomingMessage,
  res: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders | OutgoingHttpHeader[],
  body: string | Uint8Array,
): void {
  if (res.destroyed || res.headersSent) return;
  const pending = isBodyPending(req);
  const content = req.method === "HEAD" ? "" : body;
  if (pending) res.shouldKeepAlive = false;
  const length = Buffer.byteLength(body);
  res.writeHead(
    status,
    Array.isArray(headers) ? [...headers, "content-length", length] : { ...headers, "content-length": length },
  );
  // A client that still waits for "100 Continue" does not send.
  const sending = pending && req.headers.expect === undefined;
  if (!sending) {
    res.end(content);
    return;
  }
  if (content.length > 0) res.write(content);
  else res.flushHeaders();
  discard(req, () => res.end());
}

/** Whether the client has announced a body that has not arrived in full. */
function isBodyPending(req: IncomingMessage): boolean {
  // A request without a body is not `complete` yet while its own listener runs.
  return !req.complete && (req.headers["transfer-encoding"] !== undefined || Number(req.headers["content-length"]) > 0);
}

function discard(req: IncomingMessage, done: () => void): void {
  let bytes = 0;
  const finish = (): void => {
    clearTimeout(timer);
    req.off("data", count).off("close", finish).off("end", finish);
    done();
  };
  const timer = setTimeout(finish, lingerLimits.ms).unref();
  const count = (chunk: Buffer): void => {
    bytes += chunk.length;
    if (bytes > lingerLimits.bytes) finish();
  };
  req.on("data", count).once("close", finish).once("end", finish).resume();
}

/**
 * Answers where the head never became whole, so that there is no request object, and closes the connection. Arriving
 * bytes are discarded for a moment: closing at once would reset the connection before the answer is read.
 */
export function answerRaw(
  socket: Duplex,
  status: number,
  headers: Readonly<Record<string, string>>,
  body: string,
): void {
  const lines = Object.entries({
    ...headers,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    connection: "close",
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n${body}`);
  const timer = setTimeout(() => socket.destroy(), lingerLimits.ms).unref();
  socket.once("close", () => clearTimeout(timer)).resume();
}

/** Callbacks for one watched response. */
interface WatchedEvents {
  /** The reader has read nothing for the stall limit although bytes wait for it. Called once. */
  stalled(): void;
  /** Nothing was written for the keep-alive limit. Called again after every further such interval of silence. */
  silent?(): void;
}

export interface Watched {
  /** Something was written: restarts the silence interval. */
  touched(): void;
  /** Ends the watch. */
  done(): void;
}

export interface ResponseWatch {
  watch(res: ServerResponse, on: WatchedEvents): Watched;
  /** Responses being watched. */
  readonly size: number;
  close(): void;
}

interface ResponseWatchOptions {
  /** Read at every check: they may change while responses are watched. */
  readonly limits: Pick<ServiceLimits, "stallMs" | "sseKeepAliveMs">;
  /** Interval of the checks; callbacks are late by at most this. Default: one second, or shorter when the limits are. */
  readonly intervalMs?: () => number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

const intervalMsMax = 1_000;

/**
 * Finds stalled readers and silent streams with one timer for all responses: a timer per token or per response would cost
 * more than the tokens.
 */
export function createResponseWatch({
  limits,
  now,
  intervalMs = () => Math.max(5, Math.min(intervalMsMax, limits.stallMs / 4, limits.sseKeepAliveMs / 4)),
}: ResponseWatchOptions): ResponseWatch {
  interface Entry {
    readonly res: ServerResponse;
    readonly on: WatchedEvents;
    readonly drained: () => void;
    /** When a check first found the response waiting for its reader; null: it does not wait. */
    blockedSinceMs: number | null;
    touchedAtMs: number;
  }

  const entries = createSampler<Entry>(intervalMs, (entry) => {
    const nowMs = now();
    if (!isWaiting(entry.res)) entry.blockedSinceMs = null;
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
    watch(res, on) {
      const entry: Entry = {
        res,
        on,
        // A response may drain and fill again between two checks: that reader is slow, not stalled.
        drained: () => {
          entry.blockedSinceMs = null;
        },
        blockedSinceMs: null,
        touchedAtMs: now(),
      };
      res.on("drain", entry.drained);
      entries.add(entry);
      return {
        touched() {
          entry.touchedAtMs = now();
        },
        done: () => release(entry),
      };
    },
    get size() {
      return entries.size;
    },
    close: () => entries.close(),
  };
}

/** An ended response emits no more `drain`, but its last bytes may still wait for the reader. */
function isWaiting(res: ServerResponse): boolean {
  return res.writableEnded ? !res.writableFinished : res.writableNeedDrain;
}
