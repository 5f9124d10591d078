import type { ServiceLimits } from "../../contract/limits.js";
import type { BodyFault } from "../../domain/call/call-context.js";
import { createSampler } from "../../lib/sampler.js";

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
export class BodyCharge {
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
export interface Upload {
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

/** Times and rates are read at every check, so that they may change while bodies are watched. */
export interface UploadWatchOptions {
  /** Interval of the checks; default: one second, or shorter when the grace is. */
  readonly intervalMs?: () => number;
  /** Bytes per second that must arrive. */
  readonly bytesPerSecondMin: () => number;
  /** Length of the spans over which the rate is measured, and so the time until the first verdict. */
  readonly graceMs: () => number;
  /** Monotonic milliseconds. */
  readonly now: () => number;
}

const intervalMsMax = 1_000;

/** Finds bodies that arrive too slowly, by sampling their byte counts with one timer: nothing is done per chunk. */
export function createUploadWatch({
  bytesPerSecondMin,
  graceMs,
  now,
  intervalMs = () => Math.min(intervalMsMax, graceMs()),
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
    if (spanMs < graceMs()) return;
    const bytes = entry.upload.bytes();
    if ((bytes - entry.bytesBefore) * 1000 < bytesPerSecondMin() * spanMs) {
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
