import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServiceLimits } from "../../contract/limits.js";
import { errorOfEnd } from "../../domain/call-context.js";
import { ServiceError } from "../../domain/service-error.js";
import type { ByteBudget } from "../../lib/byte-budget.js";
import { isBodyPending } from "../../lib/lingering-answer.js";
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
  checkAnnouncedSize(req: IncomingMessage): void {
    if (Number(req.headers["content-length"]) > this.#deps.limits.bodyBytesMax) throw this.#tooLarge();
  }

  /**
   * Gives the whole body to `parse` and keeps its share of the budget until that returns. Rejects with ServiceError
   * when the body is too large or too slow, when too much is being received already, or when `signal` aborts.
   */
  async read<T>(
    req: IncomingMessage,
    res: ServerResponse,
    signal: AbortSignal,
    parse: (body: Buffer) => T,
  ): Promise<T> {
    if (req.headers.expect !== undefined) {
      res.writeContinue();
      // From here on the client sends, whatever is answered.
      delete req.headers.expect;
    }
    const { bodies } = this.#deps;
    let taken = 0;
    try {
      const chunks = await this.#collect(req, signal, (bytes) => {
        if (!bodies.take(bytes)) throw overloaded();
        taken += bytes;
        if (taken > this.#deps.limits.bodyBytesMax) throw this.#tooLarge();
      });
      const [only] = chunks;
      return parse(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, taken));
    } finally {
      bodies.give(taken);
    }
  }

  #collect(req: IncomingMessage, signal: AbortSignal, account: (bytes: number) => void): Promise<Buffer[]> {
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      const settle = (error?: unknown): void => {
        stopWatching();
        req.off("data", onData).off("end", onEnd).off("error", settle).off("close", onClose);
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
      const onAbort = (): void => settle(errorOfEnd(signal.reason));
      const onClose = (): void => settle(new ServiceError("client_closed_request", "The client left."));
      // Most bodies are complete before anybody reads them: nothing can happen to those.
      const isPending = isBodyPending(req);
      const stopWatching = isPending ? this.#deps.uploads.watch(req, () => settle(this.#tooSlow())) : () => {};
      if (signal.aborted) onAbort();
      else {
        if (isPending) signal.addEventListener("abort", onAbort);
        req.on("data", onData).on("end", onEnd).on("error", settle).on("close", onClose);
      }
    });
  }

  #tooLarge(): ServiceError {
    const { bodyBytesMax } = this.#deps.limits;
    return new ServiceError("request_too_large", `The body is larger than ${bodyBytesMax} bytes.`);
  }

  #tooSlow(): ServiceError {
    const { bodyRateMin } = this.#deps.limits;
    return new ServiceError("request_timeout", `The body arrived slower than ${bodyRateMin} bytes per second.`);
  }
}

function overloaded(): ServiceError {
  return new ServiceError("server_is_overloaded", "Too many request bodies are being received. Try again shortly.", {
    retryAfterMs: 1_000,
  });
}
