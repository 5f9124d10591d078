import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServiceLimits } from "../../contract/limits.js";
import { errorOfBodyFault } from "../../domain/body-fault.js";
import type { ByteBudget } from "../../lib/byte-budget.js";
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
  checkAnnouncedSize(req: IncomingMessage, signal: AbortSignal): void {
    const { limits } = this.#deps;
    if (isAnnouncedTooLarge(req, limits.bodyBytesMax)) throw errorOfBodyFault("too_large", limits, signal);
  }

  /**
   * Gives the whole body to `parse`. Rejects with ServiceError when the body is too large or too slow, when too much is
   * being received already, or when `signal` aborts.
   */
  async read<T>(
    req: IncomingMessage,
    res: ServerResponse,
    signal: AbortSignal,
    parse: (body: Buffer) => T,
  ): Promise<T> {
    const { limits, bodies: budget, uploads } = this.#deps;
    try {
      return await readRequestBody(req, res, { bytesMax: limits.bodyBytesMax, budget, uploads }, signal, parse);
    } catch (thrown) {
      throw thrown instanceof BodyError ? errorOfBodyFault(thrown.fault, limits, signal) : thrown;
    }
  }
}
