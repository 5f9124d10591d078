import type { IncomingMessage } from "node:http";
import type { ServiceLimits } from "../../contract/limits.js";
import { type BodyFault, type CallContext, errorOfBodyFault, shareOwnerOf } from "../../domain/call/call-context.js";
import type { ServiceError } from "../../domain/call/service-error.js";
import { createSampler, Turns } from "../../lib/clock.js";
import type { Placed } from "../../lib/collections.js";
import { FairShare } from "../../lib/fair-share.js";
import type { Call } from "./call.js";
import { freeBuffer } from "./free-buffer.js";

/** Shared by all bodies that are being received. */
export interface BodyDeps {
  readonly limits: Pick<ServiceLimits, "bodyRateMin">;
  readonly bodies: BodyBudget;
  readonly uploads: UploadWatch;
}

/** The opened call whose body is read. The body is charged to its caller's share of the budget; its signal ends the reading. */
type BodyCall = Pick<Call, "req" | "res" | "signal"> & { readonly ctx: Pick<CallContext, "principal" | "address"> };

/** Throws `request_too_large` before any byte of the body is read, if its Content-Length is too large. */
export function checkAnnouncedSize(deps: BodyDeps, call: BodyCall, bytesMax: number): void {
  if (Number(call.req.headers["content-length"] ?? 0) > bytesMax) throw errorOf(deps, "too_large", call, bytesMax);
}

/**
 * Passes the whole body to `use`, synchronously when it has already arrived. Bytes are charged to the budget when they
 * arrive, and until `use` has ended: with a charge for the announced length, a client could hold budget without sending.
 * Throws or rejects with ServiceErrors only.
 */
export function readBody<T>(
  deps: BodyDeps,
  call: BodyCall,
  bytesMax: number,
  use: (body: Buffer) => T | Promise<T>,
): T | Promise<T> {
  const { req, res, signal } = call;
  checkAnnouncedSize(deps, call, bytesMax);
  if (req.headers.expect !== undefined) {
    // A client that waits for "100 Continue" starts to send its body after it.
    res.writeContinue();
    delete req.headers.expect;
  }
  if (signal.aborted) throw errorOf(deps, "aborted", call, bytesMax);
  if (req.destroyed) throw errorOf(deps, "left", call, bytesMax);
  if (!hasArrived(req)) return useArriving(deps, call, bytesMax, use);
  const body: Buffer = req.read() ?? Buffer.alloc(0);
  // Lets the request emit `end`; a complete one was just read to its end.
  if (!req.complete) req.resume();
  if (body.length > bytesMax) throw errorOf(deps, "too_large", call, bytesMax);
  // The body is used and dropped immediately, so it is checked against the budget but not charged.
  if (!deps.bodies.hasRoom(body.length)) throw errorOf(deps, "no_room", call, bytesMax);
  return use(body);
}

/** Whether the whole body is buffered. Most bodies arrive with their head; Node sets `complete` only after the last byte. */
function hasArrived(req: IncomingMessage): boolean {
  return req.complete || req.readableLength === Number(req.headers["content-length"]);
}

async function useArriving<T>(
  deps: BodyDeps,
  call: BodyCall,
  bytesMax: number,
  use: (body: Buffer) => T | Promise<T>,
): Promise<T> {
  const charge = deps.bodies.charge(call.req.socket, shareOwnerOf(call.ctx));
  try {
    const chunks = await collect(deps.uploads, call, bytesMax, charge);
    if (!Array.isArray(chunks)) throw errorOf(deps, chunks, call, bytesMax);
    return await use(await joined(chunks, charge.bytes));
  } finally {
    charge.release();
  }
}

/** Up to this size, a body is copied without a pause for other work of the event loop. */
const copiedBytesMax = 1_048_576;

async function joined(chunks: readonly Buffer[], length: number): Promise<Buffer> {
  if (length <= copiedBytesMax) return Buffer.concat(chunks, length);
  const turns = new Turns();
  const body = Buffer.allocUnsafeSlow(length);
  let at = 0;
  for (const chunk of chunks) {
    body.set(chunk, at);
    at += chunk.length;
    freeBuffer(chunk);
    await turns.next();
  }
  return body;
}

function collect(
  uploads: UploadWatch,
  { req, signal }: BodyCall,
  bytesMax: number,
  charge: BodyCharge,
): Promise<Buffer[] | BodyFault> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const settle = (result: Buffer[] | BodyFault): void => {
      stopWatching();
      req.off("data", onData).off("end", onEnd).off("error", onLeft).off("close", onLeft);
      signal.removeEventListener("abort", onAbort);
      resolve(result);
    };
    const onData = (chunk: Buffer): void => {
      const isTooLarge = charge.bytes + chunk.length > bytesMax;
      const fault = isTooLarge ? "too_large" : charge.add(chunk.length);
      if (fault === null) chunks.push(chunk);
      else settle(fault);
    };
    const onEnd = (): void => settle(chunks);
    const onLeft = (): void => settle("left");
    const onAbort = (): void => settle("aborted");
    const upload = { bytes: () => req.socket.bytesRead, isOver: () => req.complete || req.destroyed };
    const stopWatching = uploads.watch(upload, () => settle("too_slow"));
    signal.addEventListener("abort", onAbort);
    req.on("data", onData).on("end", onEnd).on("error", onLeft).on("close", onLeft);
  });
}

function errorOf({ limits }: BodyDeps, fault: BodyFault, { signal }: BodyCall, bytesMax: number): ServiceError {
  return errorOfBodyFault(fault, { bytesMax, bytesPerSecondMin: limits.bodyRateMin }, signal);
}

/** Maximum shares of the budget for one connection and for one caller, so that one cannot use up the budget of all others. */
const connectionShare = 1 / 4;
const callerShare = 1 / 2;
/** Size of the prefix that gRPC and Connect put before a message. */
const frameBytes = 5;

/**
 * The budget of bytes for all request bodies that are being received, on every protocol, shared fairly by callers and also
 * by connections. A body that does not fit is refused immediately: if it waited, its bytes would fill the socket buffers.
 * When `bodiesBytesMax` is lowered below the held bytes, nothing more is granted until enough was released.
 */
export class BodyBudget {
  readonly #limits: Pick<ServiceLimits, "bodiesBytesMax" | "bodyBytesMax">;
  readonly #callers: FairShare;
  /** Bytes held by each connection (its socket or session). */
  readonly #connections = new Map<object, number>();

  constructor(limits: Pick<ServiceLimits, "bodiesBytesMax" | "bodyBytesMax">) {
    this.#limits = limits;
    const bytesOfCaller = (): number => this.#shareBytes(callerShare);
    this.#callers = new FairShare({
      get capacity() {
        return limits.bodiesBytesMax;
      },
      get accountMax() {
        return bytesOfCaller();
      },
      get contendedMax() {
        return bytesOfCaller();
      },
      waitingMax: 0,
    });
  }

  get used(): number {
    return this.#callers.held;
  }

  /** Whether a body that has already arrived fits into the budget. Charges nothing. */
  hasRoom(bytes: number): boolean {
    return this.#callers.held + bytes <= this.#limits.bodiesBytesMax;
  }

  /** Starts the charge of one body. `caller` is the key or the account, or the address of an unknown caller. */
  charge(connection: object, caller: string): BodyCharge {
    return new BodyCharge(this, connection, caller);
  }

  /** Charges `bytes` if they fit into the budget and both shares. Null: they were charged. */
  hold(bytes: number, connection: object, caller: string): BodyFault | null {
    if (!this.hasRoom(bytes)) return "no_room";
    const ofConnection = (this.#connections.get(connection) ?? 0) + bytes;
    if (ofConnection > this.#shareBytes(connectionShare)) return "connection_full";
    if (!this.#callers.tryTake(caller, bytes)) return "caller_full";
    this.#connections.set(connection, ofConnection);
    return null;
  }

  release(bytes: number, connection: object, caller: string): void {
    this.#callers.release(caller, bytes);
    const left = (this.#connections.get(connection) ?? 0) - bytes;
    if (left > 0) this.#connections.set(connection, left);
    else this.#connections.delete(connection);
  }

  /** The bytes of a share; it is never smaller than one body of the largest size. */
  #shareBytes(share: number): number {
    const { bodiesBytesMax, bodyBytesMax } = this.#limits;
    return Math.max(bodiesBytesMax * share, bodyBytesMax + frameBytes);
  }
}

/** The bytes of one body that are charged to the budget. */
class BodyCharge {
  readonly #budget: BodyBudget;
  readonly #connection: object;
  readonly #caller: string;
  /** Bytes that have arrived. */
  bytes = 0;

  constructor(budget: BodyBudget, connection: object, caller: string) {
    this.#budget = budget;
    this.#connection = connection;
    this.#caller = caller;
  }

  /** Charges arrived bytes. */
  add(bytes: number): BodyFault | null {
    const fault = this.#budget.hold(bytes, this.#connection, this.#caller);
    if (fault === null) this.bytes += bytes;
    return fault;
  }

  release(): void {
    if (this.bytes > 0) this.#budget.release(this.bytes, this.#connection, this.#caller);
    this.bytes = 0;
  }
}

/** A body that is being received. */
interface Upload {
  /** Bytes that have arrived so far. */
  bytes(): number;
  /** Whether the body is complete or the connection closed. */
  isOver(): boolean;
}

export type UploadWatch = ReturnType<typeof createUploadWatch>;

const checkMsMax = 1_000;

/**
 * Finds bodies that arrive slower than `bodyRateMin` bytes per second during a span of `bodyRateGraceMs`, by sampling
 * their byte counts with one timer: nothing is done per chunk. `now`: monotonic milliseconds. Changed limits apply to
 * bodies that are watched already.
 */
export function createUploadWatch(limits: Pick<ServiceLimits, "bodyRateMin" | "bodyRateGraceMs">, now: () => number) {
  interface Entry extends Placed {
    readonly upload: Upload;
    readonly tooSlow: () => void;
    /** Start of the span that is being measured. */
    sinceMs: number;
    bytesBefore: number;
  }

  const intervalMs = (): number => Math.min(checkMsMax, limits.bodyRateGraceMs);
  const entries = createSampler<Entry>(intervalMs, (entry) => {
    if (entry.upload.isOver()) return entries.delete(entry);
    const nowMs = now();
    const spanMs = nowMs - entry.sinceMs;
    if (spanMs < limits.bodyRateGraceMs) return;
    const bytes = entry.upload.bytes();
    if ((bytes - entry.bytesBefore) * 1000 < limits.bodyRateMin * spanMs) {
      entries.delete(entry);
      entry.tooSlow();
      return;
    }
    entry.sinceMs = nowMs;
    entry.bytesBefore = bytes;
  });

  return {
    /**
     * Starts to watch a body. Call it when the body is being read, because an unread body stops arriving. `tooSlow` is
     * called at most once. The returned function ends the watch; it also ends by itself when the upload is over.
     */
    watch(upload: Upload, tooSlow: () => void): () => void {
      const entry: Entry = { upload, tooSlow, sinceMs: now(), bytesBefore: upload.bytes(), place: 0 };
      entries.add(entry);
      return () => entries.delete(entry);
    },
    get size() {
      return entries.size;
    },
    close: () => entries.close(),
  };
}
