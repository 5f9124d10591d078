import type { IncomingMessage, ServerResponse } from "node:http";
import type { ByteBudget } from "./byte-budget.js";
import { isBodyPending } from "./lingering-answer.js";
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
 * Gives a whole request body to `use`; rejects with BodyError. The body takes its share of the budget as its bytes come,
 * because a share for what is only announced could be held by who never sends it, and keeps it until `use` returns.
 */
export async function readRequestBody<T>(
  req: IncomingMessage,
  res: ServerResponse,
  { bytesMax, budget, uploads }: RequestBodyLimits,
  signal: AbortSignal,
  use: (body: Buffer) => T,
): Promise<T> {
  if (isAnnouncedTooLarge(req, bytesMax)) throw new BodyError("too_large");
  let taken = 0;
  try {
    continueIfAsked(req, res);
    const chunks = await collect(req, uploads, signal, (bytes) => {
      if (!budget.take(bytes)) throw new BodyError("no_room");
      taken += bytes;
      if (taken > bytesMax) throw new BodyError("too_large");
    });
    const [only] = chunks;
    return use(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, taken));
  } finally {
    budget.give(taken);
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
  signal: AbortSignal,
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
    // Most bodies are complete before anybody reads them: nothing can happen to those.
    const isPending = isBodyPending(req);
    const stopWatching = isPending ? uploads.watch(req, tooSlow) : () => {};
    if (signal.aborted) onAbort();
    else if (req.destroyed) onLeft();
    else {
      if (isPending) signal.addEventListener("abort", onAbort, { once: true });
      req.on("data", onData).on("end", onEnd).on("error", onLeft).on("close", onLeft);
    }
  });
}
