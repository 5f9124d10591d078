import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServiceLimits } from "../../contract/limits.js";
import { errorOfBodyFault } from "../../domain/call/body-fault.js";
import type { ByteBudget } from "../../lib/byte-budget.js";
import type { StopSignal } from "../../lib/lazy-abort.js";
import { BodyError, isAnnouncedTooLarge, readRequestBody } from "../../lib/request-body.js";
import type { UploadWatch } from "../../lib/upload-watch.js";

export interface BodyReaderDeps {
  readonly limits: Pick<ServiceLimits, "bodyBytesMax" | "bodyRateMin">;
  /** Shared by all bodies that are being received. */
  readonly bodies: ByteBudget;
  readonly uploads: UploadWatch;
}

/** Reads request bodies within their limits. */
export class BodyReader {
  readonly #deps: BodyReaderDeps;

  constructor(deps: BodyReaderDeps) {
    this.#deps = deps;
  }

  /** Throws ServiceError `request_too_large` for a body that is announced as too large, before a byte of it is read. */
  checkAnnouncedSize(req: IncomingMessage, signal: StopSignal): void {
    const { limits } = this.#deps;
    if (isAnnouncedTooLarge(req, limits.bodyBytesMax)) throw errorOfBodyFault("too_large", limits, signal);
  }

  /**
   * Gives the whole body to `parse`, at once when it has arrived. Throws or rejects with ServiceError when the body is
   * too large or too slow, when too much is being received already, or when `signal` aborts.
   */
  read<T>(req: IncomingMessage, res: ServerResponse, signal: StopSignal, parse: (body: Buffer) => T): T | Promise<T> {
    const { limits, bodies: budget, uploads } = this.#deps;
    const told = (thrown: unknown): never => {
      throw thrown instanceof BodyError ? errorOfBodyFault(thrown.fault, limits, signal) : thrown;
    };
    try {
      const read = readRequestBody(req, res, { bytesMax: limits.bodyBytesMax, budget, uploads }, signal, parse);
      return read instanceof Promise ? read.catch(told) : read;
    } catch (thrown) {
      return told(thrown);
    }
  }
}
