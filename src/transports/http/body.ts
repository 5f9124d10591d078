import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServiceLimits } from "../../contract/limits.js";
import { type BodyFault, bodyOwnerOf, type CallContext, errorOfBodyFault } from "../../domain/call/call-context.js";
import type { ServiceError } from "../../domain/call/service-error.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { createSampler } from "../../lib/sampler.js";

export interface BodyReaderDeps {
  readonly limits: Pick<ServiceLimits, "bodyRateMin">;
  /** Shared by all bodies that are being received. */
  readonly bodies: BodyBudget;
  /** Finds bodies that arrive too slowly. */
  readonly uploads: UploadWatch;
}

/** One request whose body is read. */
interface BodyRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly bytesMax: number;
  /** The opened call: its caller's share of the budget is charged. */
  readonly ctx: Pick<CallContext, "principal" | "address">;
  /** Ends the reading. */
  readonly signal: AbortFlag;
}

/** Reads whole request bodies within their limits. All of its errors are ServiceErrors. */
export class BodyReader {
  readonly #deps: BodyReaderDeps;

  constructor(deps: BodyReaderDeps) {
    this.#deps = deps;
  }

  /** Throws `request_too_large` for a body whose announced length is too large, before a byte of it is read. */
  checkAnnouncedSize(request: BodyRequest): void {
    if (isAnnouncedTooLarge(request)) throw this.#error("too_large", request);
  }

  /**
   * Passes the whole body to `use`, synchronously when it has already arrived. The body is charged to the budget as its
   * bytes arrive, because a charge for announced bytes could be held without sending them, and until `use` returns.
   */
  read<T>(request: BodyRequest, use: (body: Buffer) => T): T | Promise<T> {
    const { req, res, signal } = request;
    if (isAnnouncedTooLarge(request)) throw this.#error("too_large", request);
    continueIfAsked(req, res);
    if (signal.aborted) throw this.#error("aborted", request);
    if (req.destroyed) throw this.#error("left", request);
    return hasArrived(req) ? this.#useArrived(request, use) : this.#useArriving(request, use);
  }

  #useArrived<T>(request: BodyRequest, use: (body: Buffer) => T): T {
    const { req } = request;
    const body: Buffer = req.read() ?? Buffer.alloc(0);
    // Lets the request end; one that is complete was just read to its end.
    if (!req.complete) req.resume();
    if (body.length > request.bytesMax) throw this.#error("too_large", request);
    // Used and dropped at once, so nothing is held.
    if (!this.#deps.bodies.hasRoom(body.length)) throw this.#error("no_room", request);
    return use(body);
  }

  async #useArriving<T>(request: BodyRequest, use: (body: Buffer) => T): Promise<T> {
    const charge = this.#deps.bodies.charge(request.req.socket, bodyOwnerOf(request.ctx));
    try {
      const chunks = await collect(request, this.#deps.uploads, charge);
      if (!Array.isArray(chunks)) throw this.#error(chunks, request);
      return use(Buffer.concat(chunks));
    } finally {
      charge.release();
    }
  }

  #error(fault: BodyFault, { bytesMax, signal }: BodyRequest): ServiceError {
    return errorOfBodyFault(fault, { bytesMax, bytesPerSecondMin: this.#deps.limits.bodyRateMin }, signal);
  }
}

function isAnnouncedTooLarge({ req, bytesMax }: BodyRequest): boolean {
  return Number(req.headers["content-length"] ?? 0) > bytesMax;
}

/** Most bodies arrive with their head. Node sets `complete` a moment after it has the last byte. */
function hasArrived(req: IncomingMessage): boolean {
  return req.complete || req.readableLength === Number(req.headers["content-length"]);
}

/** Sends "100 Continue" to a client that waits for it. From then on it sends its body, whatever is answered. */
function continueIfAsked(req: IncomingMessage, res: ServerResponse): void {
  if (req.headers.expect === undefined) return;
  res.writeContinue();
  delete req.headers.expect;
}

function collect(
  { req, signal, bytesMax }: BodyRequest,
  uploads: UploadWatch,
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
    const onTooSlow = (): void => settle("too_slow");
    const upload = { bytes: () => req.socket.bytesRead, isOver: () => req.complete || req.destroyed };
    const stopWatching = uploads.watch(upload, onTooSlow);
    signal.addEventListener("abort", onAbort);
    req.on("data", onData).on("end", onEnd).on("error", onLeft).on("close", onLeft);
  });
}

/** Shares of the budget that one connection and one caller may hold, so that the others always have room. */
const connectionShare = 1 / 4;
const callerShare = 1 / 2;

/**
 * The budget of bytes for all request bodies that are being received, on every protocol. When `bodiesBytesMax` shrinks
 * below what is held, nothing more is granted until enough was released.
 */
export class BodyBudget {
  readonly #limits: Pick<ServiceLimits, "bodiesBytesMax" | "bodyBytesMax">;
  /** Bytes held by each connection (its socket or session) and each caller. */
  readonly #held = new Map<object | string, number>();
  #used = 0;

  constructor(limits: Pick<ServiceLimits, "bodiesBytesMax" | "bodyBytesMax">) {
    this.#limits = limits;
  }

  get used(): number {
    return this.#used;
  }

  /** Whether a body that has already arrived fits, without holding anything. */
  hasRoom(bytes: number): boolean {
    return this.#used + bytes <= this.#limits.bodiesBytesMax;
  }

  /** Starts the charge of one body. `caller` is the key or the account, or the address of an unknown caller. */
  charge(connection: object, caller: string): BodyCharge {
    return new BodyCharge(this, connection, caller);
  }

  /** Used by BodyCharge. Holds `bytes` more, or says why not. */
  hold(bytes: number, connection: object, caller: string): BodyFault | null {
    if (!this.hasRoom(bytes)) return "no_room";
    if (!this.#fits(connection, bytes, connectionShare)) return "connection_full";
    if (!this.#fits(caller, bytes, callerShare)) return "caller_full";
    this.#add(connection, bytes);
    this.#add(caller, bytes);
    this.#used += bytes;
    return null;
  }

  /** Used by BodyCharge. */
  release(bytes: number, connection: object, caller: string): void {
    this.#add(connection, -bytes);
    this.#add(caller, -bytes);
    this.#used -= bytes;
  }

  /** A share always holds one body of the largest size. */
  #fits(holder: object | string, bytes: number, share: number): boolean {
    const { bodiesBytesMax, bodyBytesMax } = this.#limits;
    return (this.#held.get(holder) ?? 0) + bytes <= Math.max(bodiesBytesMax * share, bodyBytesMax + frameBytes);
  }

  #add(holder: object | string, bytes: number): void {
    const held = (this.#held.get(holder) ?? 0) + bytes;
    if (held > 0) this.#held.set(holder, held);
    else this.#held.delete(holder);
  }
}

/** Bytes around a message of the largest size: gRPC's and Connect's prefix. */
const frameBytes = 5;

/** What one body holds of the budget. */
class BodyCharge {
  readonly #budget: BodyBudget;
  readonly #connection: object;
  readonly #caller: string;
  #bytes = 0;

  constructor(budget: BodyBudget, connection: object, caller: string) {
    this.#budget = budget;
    this.#connection = connection;
    this.#caller = caller;
  }

  /** Bytes that have arrived. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Charges arrived bytes, because a charge for announced bytes could be held without sending them. */
  add(bytes: number): BodyFault | null {
    const fault = this.#budget.hold(bytes, this.#connection, this.#caller);
    if (fault === null) this.#bytes += bytes;
    return fault;
  }

  release(): void {
    if (this.#bytes > 0) this.#budget.release(this.#bytes, this.#connection, this.#caller);
    this.#bytes = 0;
  }
}

/** A body that is being received. */
interface Upload {
  /** Bytes that have arrived so far. */
  bytes(): number;
  /** Whether the body is complete or the connection gone. */
  isOver(): boolean;
}

export interface UploadWatch {
  /**
   * Watches a body from now on; begin when it is being read, because an unread body stops arriving. `tooSlow` is called
   * once at most. The returned function ends the watch; it also ends by itself when the upload is over.
   */
  watch(upload: Upload, tooSlow: () => void): () => void;
  readonly size: number;
  close(): void;
}

interface UploadWatchOptions {
  /** The rate that bodies must reach, measured over spans of the grace time. Read at every check: they may change. */
  readonly limits: Pick<ServiceLimits, "bodyRateMin" | "bodyRateGraceMs">;
  /** Interval of the checks; default: one second, or shorter when the grace is. */
  readonly intervalMs?: () => number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

const intervalMsMax = 1_000;

/** Finds bodies that arrive too slowly, by sampling their byte counts with one timer: nothing is done per chunk. */
export function createUploadWatch({
  limits,
  now,
  intervalMs = () => Math.min(intervalMsMax, limits.bodyRateGraceMs),
}: UploadWatchOptions): UploadWatch {
  interface Entry {
    readonly upload: Upload;
    readonly tooSlow: () => void;
    /** Start of the span that is being measured. */
    sinceMs: number;
    bytesBefore: number;
  }

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
    watch(upload, tooSlow) {
      const entry: Entry = { upload, tooSlow, sinceMs: now(), bytesBefore: upload.bytes() };
      entries.add(entry);
      return () => entries.delete(entry);
    },
    get size() {
      return entries.size;
    },
    close: () => entries.close(),
  };
}
