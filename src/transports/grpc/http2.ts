import {
  constants,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Server, ServerInterceptingCallInterface } from "@grpc/grpc-js";
import { fixedLimits } from "../../contract/limits.js";
import type { Clock } from "../../domain/call/ports.js";
import { createSystemClock } from "../../lib/clock.js";
import { MessageDecoder } from "./message-decoder.js";

/** Interval of the checks of all sessions. Timeouts are counted in checks, so that a blocked event loop closes no session. */
const checkMs = 1_000;
/** Number of checks between two pings of a session. */
const pingEveryChecks = 30;
/** A ping that is unanswered after this many checks means that the connection is lost. */
const answerChecks = 10;
/** Age at which a connection is closed, so that its client resolves the name again and reaches new replicas. */
const ageMs = 5 * 60_000;
/** Ages differ by up to this share, so that clients that connected at the same time do not reconnect at the same time. */
const ageJitter = 0.1;

/** Size of a PING frame and of its acknowledgement. */
const pingFrameBytes = 17;

/**
 * Size of the largest header list that Node decodes. A larger list resets its stream, and a single value of 64 KiB or more
 * closes the whole connection. So the size is announced in SETTINGS: clients that honour it reject such a call themselves.
 */
const headerListBytesMax = 65_535;

/** Private fields of a grpc-js server, read only here. The tests of connection age and unknown RPCs fail without them. */
interface PrivateFields {
  readonly http2Servers: ReadonlyMap<Http2Server, unknown>;
  /** grpc-js's handlers by path. */
  readonly handlers: ReadonlyMap<string, unknown>;
}

interface Tracked {
  readonly session: ServerHttp2Session;
  readonly retiresAtMs: number;
  openStreams: number;
  isRetired: boolean;
  checksSincePing: number;
  /** Bytes that the socket had sent when the unanswered ping was queued; null: all pings are answered. */
  sentBeforePing: number | null;
  bytesRead: number;
}

/**
 * The HTTP/2 sessions of a grpc-js server: keepalive, connection age and draining.
 *
 * grpc-js has options for these, but its keepalive ends running calls: it pings sessions that Node has marked as closing.
 * There `ping` sends nothing and returns undefined, which grpc-js treats as a lost client. Here such sessions are not pinged,
 * and a session that is too old gets a GOAWAY frame without that mark, so that pings continue until its last call ends.
 * Call this after `createConnectionInjector` of `grpc`.
 */
export function keepSessions(grpc: Server, clock: Clock) {
  const sessions = new Set<Tracked>();
  let isDraining = false;
  let isCheckDue = false;

  function track(session: ServerHttp2Session): void {
    const spread = 1 + ageJitter * (2 * Math.random() - 1);
    const tracked: Tracked = {
      session,
      retiresAtMs: clock.monotonic() + ageMs * spread,
      openStreams: 0,
      isRetired: false,
      checksSincePing: 0,
      sentBeforePing: null,
      bytesRead: 0,
    };
    sessions.add(tracked);
    session.settings({ maxHeaderListSize: headerListBytesMax });
    session.on("stream", (stream) => {
      tracked.openStreams += 1;
      stream.once("close", () => {
        tracked.openStreams -= 1;
        if (tracked.isRetired && tracked.openStreams === 0) session.close();
        // The session references a closed stream for several garbage collections; its listeners reference the call's objects.
        stream.removeAllListeners();
      });
    });
    session.once("close", () => sessions.delete(tracked));
    if (isDraining) retire(tracked);
    checkLater();
  }

  function checkLater(): void {
    if (isCheckDue) return;
    isCheckDue = true;
    clock.after(checkMs, () => {
      isCheckDue = false;
      for (const tracked of sessions) check(tracked, clock.monotonic());
      if (sessions.size > 0) checkLater();
    });
  }

  const { http2Servers, handlers } = grpc as unknown as PrivateFields;
  for (const server of http2Servers.keys()) {
    server.on("session", track);
    server.prependListener("stream", (_stream, headers) => {
      clampTimeout(headers);
      if (handlers.has(headers[":path"] ?? "")) return;
      headers[unknownRpcHeader] = headers[":path"];
      headers[":path"] = unknownRpcPath;
    });
  }

  return {
    /** Sends GOAWAY to every client, also to clients that connect later. Running calls continue. */
    drain(): void {
      isDraining = true;
      for (const tracked of sessions) retire(tracked);
    },
  };
}

function check(tracked: Tracked, nowMs: number): void {
  const { session } = tracked;
  if (!tracked.isRetired && nowMs >= tracked.retiresAtMs) retire(tracked);
  // A client that sent GOAWAY finishes its calls. It cannot be pinged; TCP keepalive detects a lost connection.
  if (session.closed || session.destroyed) return;
  tracked.checksSincePing += 1;
  if (tracked.sentBeforePing !== null) {
    if (tracked.checksSincePing >= answerChecks || isStuck(session, tracked.sentBeforePing)) session.destroy();
    return;
  }
  const { bytesRead } = session.socket;
  const hasReceived = bytesRead - tracked.bytesRead > pingFrameBytes;
  tracked.bytesRead = bytesRead;
  if (hasReceived || tracked.checksSincePing >= pingEveryChecks) ping(tracked);
}

/** Sends GOAWAY: the client finishes its calls on this connection and starts new calls on another one. */
function retire(tracked: Tracked): void {
  const { session } = tracked;
  if (tracked.isRetired || session.closed || session.destroyed) return;
  tracked.isRetired = true;
  session.goaway(constants.NGHTTP2_NO_ERROR);
  if (tracked.openStreams === 0) session.close();
}

function ping(tracked: Tracked): void {
  const { session } = tracked;
  tracked.sentBeforePing = session.socket.bytesWritten;
  tracked.checksSincePing = 0;
  session.ping((error) => {
    tracked.sentBeforePing = null;
    if (error !== null) session.destroy();
  });
}

/**
 * Whether Node has stopped the session after a connection error, such as a header that cannot be decoded, but left the
 * socket open and emitted no event. The sign: nothing was sent since the ping, although the socket's write queue is empty.
 * Reads `writeQueueSize` of the handle, which is undocumented; the test of large metadata fails if it is missing.
 */
function isStuck({ socket, state }: ServerHttp2Session, sentBeforePing: number): boolean {
  const { _handle: handle } = socket as unknown as { _handle?: { readonly writeQueueSize?: number } | null };
  const hasRoom = handle?.writeQueueSize === 0;
  return hasRoom && socket.bytesWritten === sentBeforePing && (state.outboundQueueSize ?? 0) > 0;
}

const timeoutHeader = "grpc-timeout";
const timeoutForm = /^(\d{1,8})([HMSmun])$/;
const unitMs: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 };

/** Shortens a timeout that is too long for a Node timer, before grpc-js reads it: the timer would overflow and end the call. */
function clampTimeout(headers: IncomingHttpHeaders): void {
  const [, amount, unit] = timeoutForm.exec(String(headers[timeoutHeader])) ?? [];
  if (amount === undefined || unit === undefined) return;
  const timeoutMs = Number(amount) * (unitMs[unit] ?? 1);
  if (timeoutMs > fixedLimits.int32Max) headers[timeoutHeader] = `${Math.floor(fixedLimits.int32Max / 1_000)}S`;
}

/** Replaces the path of calls of unknown RPCs: grpc-js itself would reject them without google.rpc.ErrorInfo. */
export const unknownRpcPath = "/unknown";
/** Metadata entry with the path that the client called. */
export const unknownRpcHeader = "x-unknown-rpc";

/**
 * The HTTP/2 stream of a call. grpc-js has no method to end it on the server, so this reads a private field, only here; the
 * tests of refused uploads and of stalled readers fail when the field is missing.
 */
function http2StreamOf(call: ServerInterceptingCallInterface): ServerHttp2Stream | undefined {
  return (call as unknown as { stream?: ServerHttp2Stream }).stream;
}

/** Private fields of a grpc-js call. The tests of large and of unfinished messages fail without them. */
interface PrivateCall {
  maxReceiveMessageSize: number;
  decoder: MessageDecoder;
}

/** Sets the size limit of a call's messages, for both their compressed and decompressed size. Writes private fields. */
export function limitMessages(call: ServerInterceptingCallInterface, bytesMax: number): void {
  const base = call as unknown as PrivateCall;
  base.maxReceiveMessageSize = bytesMax;
  base.decoder = new MessageDecoder(bytesMax);
}

/** Frees the part of a message that has arrived, of a call whose request is not read any more. */
export function dropMessage(call: ServerInterceptingCallInterface): void {
  (call as unknown as PrivateCall).decoder.end();
}

/** An object that identifies the connection of a call. */
export function connectionOf(call: ServerInterceptingCallInterface): object {
  return http2StreamOf(call)?.session ?? call;
}

/** Calls `arrived` with the size of every chunk of the request, after grpc-js has received it. */
export function onBytes(call: ServerInterceptingCallInterface, arrived: (bytes: number) => void): void {
  // grpc-js has paused the stream explicitly, so that another listener does not start it.
  http2StreamOf(call)?.on("data", (chunk: Buffer) => arrived(chunk.length));
}

/** Whether the stream is closed, so that nothing can be sent. */
export function isClosed(call: ServerInterceptingCallInterface): boolean {
  const stream = http2StreamOf(call);
  return stream !== undefined && (stream.closed || stream.destroyed);
}

/**
 * Closes a stream whose status was sent before the request was complete: grpc-js would leave it half open and read
 * everything that the client still sends. The client gets the status first; NO_ERROR lets it count as the response.
 * `bytes`: how much of the request has arrived.
 */
export function closeHalfOpen(call: ServerInterceptingCallInterface, bytes: number): void {
  const stream = http2StreamOf(call);
  if (stream === undefined) return;
  stream.pause();
  setImmediate(() => closePace.close(stream, bytes));
}

/** Whether the client has sent the whole request, read or not. For the client, such a stream ends with its status. */
function isSent(stream: HalfOpen): boolean {
  return stream.state.remoteClose === 1;
}

/** Bytes of refused requests in one window, of all connections together: 50 MB a second. */
const refusedBytesMax = 2_560 * 1_024;
const refusedWindowMs = 50;
/** What a refused call costs in addition to its bytes: 200 refused calls a second are closed. */
const refusedCallBytes = 256 * 1_024;

type HalfOpen = Pick<ServerHttp2Stream, "closed" | "close" | "once" | "resume" | "state">;

/**
 * Bounds the rate at which streams of refused calls are closed. Until then they count as concurrent streams of their
 * connection, so a client that repeats refused uploads is slowed down, although it gets each status at once.
 */
export class ClosePace {
  readonly #after: (ms: number, run: () => void) => unknown;
  /** Cost of each stream that waits, in the order in which they were refused. */
  readonly #waiting = new Map<HalfOpen, number>();
  #left = refusedBytesMax;
  #isOpen = false;

  /** `after` calls a function once, after milliseconds. */
  constructor(after: (ms: number, run: () => void) => unknown) {
    this.#after = after;
  }

  /**
   * Closes the stream when it is its turn, or at once if its request is complete: its client does not count it any more, so
   * too many of them would make Node refuse new streams. `bytes`: how much of its request has arrived.
   */
  close(stream: HalfOpen, bytes: number): void {
    // A stream that both sides have ended must be closed, too: what is unread would keep it.
    if (stream.closed || isSent(stream)) {
      this.#end(stream);
      return;
    }
    this.#waiting.set(stream, refusedCallBytes + bytes);
    stream.once("close", () => this.#waiting.delete(stream));
    this.#closeNext();
  }

  #closeNext(): void {
    for (const [stream, cost] of this.#waiting) {
      if (this.#left <= 0) break;
      this.#left -= cost;
      this.#end(stream);
    }
    if (this.#isOpen || this.#left === refusedBytesMax) return;
    this.#isOpen = true;
    this.#after(refusedWindowMs, () => {
      this.#isOpen = false;
      this.#left = Math.min(refusedBytesMax, this.#left + refusedBytesMax);
      for (const stream of this.#waiting.keys()) if (isSent(stream)) this.#end(stream);
      this.#closeNext();
    });
  }

  #end(stream: HalfOpen): void {
    this.#waiting.delete(stream);
    stream.close(constants.NGHTTP2_NO_ERROR);
    // What has arrived must be read before the stream can be destroyed.
    stream.resume();
  }
}

const closePace = new ClosePace(createSystemClock().after);

/** Resets the stream of a call; data that the client has not read is lost. */
export function cutOff(call: ServerInterceptingCallInterface): void {
  http2StreamOf(call)?.close(constants.NGHTTP2_CANCEL);
}
