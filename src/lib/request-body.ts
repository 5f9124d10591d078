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
 * Reads a whole request body; rejects with BodyError. A body of announced length takes its share of the budget before
 * its first byte, so that bodies which were begun can be finished; others take it as they come.
 */
export async function readRequestBody(
  req: IncomingMessage,
  res: ServerResponse,
  { bytesMax, budget, uploads }: RequestBodyLimits,
  signal: AbortSignal,
): Promise<Buffer> {
  const announced = Number(req.headers["content-length"] ?? 0);
  if (announced > bytesMax) throw new BodyError("too_large");
  if (!budget.take(announced)) throw new BodyError("no_room");
  let taken = announced;
  let received = 0;
  try {
    continueIfAsked(req, res);
    const chunks = await collect(req, uploads, signal, (bytes) => {
      received += bytes;
      if (received > bytesMax) throw new BodyError("too_large");
      if (received <= taken) return;
      if (!budget.take(received - taken)) throw new BodyError("no_room");
      taken = received;
    });
    return Buffer.concat(chunks, received);
  } finally {
    budget.give(taken);
  }
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
    // Most bodies are complete before anybody reads them.
    const tooSlow = (): void => settle(new BodyError("too_slow"));
    const stopWatching = isBodyPending(req) ? uploads.watch(req, tooSlow) : () => {};
    if (signal.aborted) onAbort();
    else if (req.destroyed) onLeft();
    else {
      signal.addEventListener("abort", onAbort, { once: true });
      req.on("data", onData).on("end", onEnd).on("error", onLeft).on("close", onLeft);
    }
  });
}
