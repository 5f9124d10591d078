import type { IncomingMessage, ServerResponse } from "node:http";
import type { BodyFault } from "../../contract/body-fault.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { errorOfBodyFault } from "../../domain/call/body-fault.js";
import type { ServiceError } from "../../domain/call/service-error.js";
import type { StopSignal } from "../../lib/lazy-abort.js";
import type { ByteBudget, UploadWatch } from "./body-limits.js";

export interface BodyReaderDeps {
  readonly limits: Pick<ServiceLimits, "bodyRateMin">;
  /** Shared by all bodies that are being received. */
  readonly bodies: ByteBudget;
  /** Finds bodies that arrive too slowly. */
  readonly uploads: UploadWatch;
}

/** One request whose body is read. */
export interface BodyRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly bytesMax: number;
  /** Ends the reading. */
  readonly signal: StopSignal;
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
    const charge = new Charge(this.#deps.bodies);
    try {
      const fault = charge.add(body.length, request.bytesMax);
      if (fault !== null) throw this.#error(fault, request);
      return use(body);
    } finally {
      charge.giveBack();
    }
  }

  async #useArriving<T>(request: BodyRequest, use: (body: Buffer) => T): Promise<T> {
    const charge = new Charge(this.#deps.bodies);
    try {
      const chunks = await collect(request, this.#deps.uploads, charge);
      if (!Array.isArray(chunks)) throw this.#error(chunks, request);
      return use(Buffer.concat(chunks));
    } finally {
      charge.giveBack();
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

/** What one body has taken of the budget. */
class Charge {
  readonly #budget: ByteBudget;
  #bytes = 0;

  constructor(budget: ByteBudget) {
    this.#budget = budget;
  }

  add(bytes: number, bytesMax: number): BodyFault | null {
    if (!this.#budget.take(bytes)) return "no_room";
    this.#bytes += bytes;
    return this.#bytes > bytesMax ? "too_large" : null;
  }

  giveBack(): void {
    this.#budget.give(this.#bytes);
  }
}

function collect(
  { req, signal, bytesMax }: BodyRequest,
  uploads: UploadWatch,
  charge: Charge,
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
      const fault = charge.add(chunk.length, bytesMax);
      if (fault === null) chunks.push(chunk);
      else settle(fault);
    };
    const onEnd = (): void => settle(chunks);
    const onLeft = (): void => settle("left");
    const onAbort = (): void => settle("aborted");
    const onTooSlow = (): void => settle("too_slow");
    const stopWatching = uploads.watch(req, onTooSlow);
    signal.addEventListener("abort", onAbort);
    req.on("data", onData).on("end", onEnd).on("error", onLeft).on("close", onLeft);
  });
}
