import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServiceLimits } from "../../contract/limits.js";
import { errorOfBodyFault } from "../../domain/call/body-fault.js";
import type { StopSignal } from "../../lib/lazy-abort.js";
import { BodyError, type RequestBodyLimits, readRequestBody } from "../../lib/request-body.js";
import { bodyBytesMax, type RpcProtocol } from "./rpc-protocol.js";

export interface MessageReaderDeps extends Pick<RequestBodyLimits, "budget" | "uploads"> {
  readonly limits: Pick<ServiceLimits, "bodyBytesMax" | "bodyRateMin">;
}

/**
 * Reads the one message of a request, still encoded. All of our RPCs take one message, so it is here as a whole before
 * Connect's handler begins: a limit, a deadline or a stop that comes in between is then answered by us.
 */
export class MessageReader {
  readonly #deps: MessageReaderDeps;

  constructor(deps: MessageReaderDeps) {
    this.#deps = deps;
  }

  /** Rejects with ServiceError. */
  async read(
    req: IncomingMessage,
    res: ServerResponse,
    protocol: RpcProtocol,
    signal: StopSignal,
  ): Promise<Uint8Array> {
    const { limits, budget, uploads } = this.#deps;
    const bytesMax = bodyBytesMax(protocol, limits.bodyBytesMax);
    try {
      return await readRequestBody(req, res, { bytesMax, budget, uploads }, signal, (body) => body);
    } catch (thrown) {
      throw thrown instanceof BodyError ? errorOfBodyFault(thrown.fault, limits, signal) : thrown;
    }
  }
}
