import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServiceLimits } from "../../contract/limits.js";
import type { BodyFault, CallContext } from "../../domain/call/call-context.js";
import { bodyOwnerOf, errorOfBodyFault } from "../../domain/call/call-context.js";
import type { ServiceError } from "../../domain/call/service-error.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import type { BodyBudget, BodyCharge, UploadWatch } from "./body-limits.js";

export interface BodyReaderDeps {
  readonly limits: Pick<ServiceLimits, "bodyRateMin">;
  /** Shared by all bodies that are being received. */
  readonly bodies: BodyBudget;
  /** Finds bodies that arrive too slowly. */
  readonly uploads: UploadWatch;
}

/** One request whose body is read. */
export interface BodyRequest {
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
