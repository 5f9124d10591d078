import type { IncomingMessage, ServerResponse } from "node:http";
import type { ByteBudget } from "./byte-budget.js";
import type { StopSignal } from "./lazy-abort.js";
import type { UploadWatch } from "./upload-watch.js";

export interface RequestBodyLimits {
  /** Of one body. */
  readonly bytesMax: number;
  /** Shared by all bodies that are being received. */
  readonly budget: ByteBudget;
  /** Finds bodies that come too slowly. */
  readonly uploads: UploadWatch;
}

/** Why a body was not read to its end: `left` is the client's doing, `aborted` the signal's. */
export type BodyFault = "too_large" | "too_slow" | "no_room" | "left" | "aborted";

export class BodyError extends Error {
  override readonly name = "BodyError";
  readonly fault: BodyFault;
  constructor(fault: BodyFault) {
    super(`the request's body was not read: ${fault}`);
    this.fault = fault;
  }
}

/**
 * Gives a whole request body to `use`, at once when it has arrived; throws or rejects with BodyError. The body takes its
 * share of the budget as its bytes come, because a share for what is only announced could be held by who never sends it,
 * and keeps it until `use` returns.
 */
export function readRequestBody<T>(
  req: IncomingMessage,
  res: ServerResponse,
  limits: RequestBodyLimits,
  signal: StopSignal,
  use: (body: Buffer) => T,
): T | Promise<T> {
  if (isAnnouncedTooLarge(req, limits.bytesMax)) throw new BodyError("too_large");
  continueIfAsked(req, res);
  if (signal.aborted) throw new BodyError("aborted");
  if (req.destroyed) throw new BodyError("left");
  return hasArrived(req) ? useArrived(req, limits, use) : useArriving(req, limits, signal, use);
}

/** Most bodies come with their head. Node says `complete` a moment after it has the last byte. */
function hasArrived(req: IncomingMessage): boolean {
  return req.complete || req.readableLength === Number(req.headers["content-length"]);
}

function useArrived<T>(req: IncomingMessage, limits: RequestBodyLimits, use: (body: Buffer) => T): T {
  const body: Buffer = req.read() ?? Buffer.alloc(0);
  // Lets the request come to its end, which is nobody's business any more. One that is complete has just been read to it.
  if (!req.complete) req.resume();
  const share = new Share(limits);
  try {
    share.add(body.length);
    return use(body);
  } finally {
    share.giveBack();
  }
}

async function useArriving<T>(
  req: IncomingMessage,
  limits: RequestBodyLimits,
  signal: StopSignal,
  use: (body: Buffer) => T,
): Promise<T> {
  const share = new Share(limits);
  try {
    return use(Buffer.concat(await collect(req, limits.uploads, signal, (bytes) => share.add(bytes))));
  } finally {
    share.giveBack();
  }
}

/** What one body has of the budget. */
class Share {
  readonly #limits: RequestBodyLimits;
  #bytes = 0;

  constructor(limits: RequestBodyLimits) {
    this.#limits = limits;
  }

  /** Throws BodyError when there is no room, or when the body is larger than allowed. */
  add(bytes: number): void {
    if (!this.#limits.budget.take(bytes)) throw new BodyError("no_room");
    this.#bytes += bytes;
    if (this.#bytes > this.#limits.bytesMax) throw new BodyError("too_large");
  }

  giveBack(): void {
    this.#limits.budget.give(this.#bytes);
  }
}

/** Whether the headers say that the body is larger than allowed: it then can be refused before a byte of it is read. */
export function isAnnouncedTooLarge(req: IncomingMessage, bytesMax: number): boolean {
  return Number(req.headers["content-length"] ?? 0) > bytesMax;
}

/** Tells a client that asked whether its body is wanted. From then on it sends, whatever is answered. */
function continueIfAsked(req: IncomingMessage, res: ServerResponse): void {
  if (req.headers.expect === undefined) return;
  res.writeContinue();
  delete req.headers.expect;
}

function collect(
  req: IncomingMessage,
  uploads: UploadWatch,
  signal: StopSignal,
  account: (bytes: number) => void,
): Promise<Buffer[]> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    const settle = (error?: unknown): void => {
      stopWatching();
      req.off("data", onData).off("end", onEnd).off("error", onLeft).off("close", onLeft);
      signal.removeEventListener("abort", onAbort);
      if (error === undefined) resolve(chunks);
      else reject(error);
    };
    const onData = (chunk: Buffer): void => {
      try {
        account(chunk.length);
        chunks.push(chunk);
      } catch (error) {
        settle(error);
      }
    };
    const onEnd = (): void => settle();
    const onLeft = (): void => settle(new BodyError("left"));
    const onAbort = (): void => settle(new BodyError("aborted"));
    const tooSlow = (): void => settle(new BodyError("too_slow"));
    const stopWatching = uploads.watch(req, tooSlow);
    signal.addEventListener("abort", onAbort);
    req.on("data", onData).on("end", onEnd).on("error", onLeft).on("close", onLeft);
  });
}
