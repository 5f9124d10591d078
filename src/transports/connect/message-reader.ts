import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServiceLimits } from "../../contract/limits.js";
import { errorOfEnd } from "../../domain/call-context.js";
import { ServiceError } from "../../domain/service-error.js";
import { BodyError, type BodyFault, type RequestBodyLimits, readRequestBody } from "../../lib/request-body.js";
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
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    const { limits, budget, uploads } = this.#deps;
    const bytesMax = bodyBytesMax(protocol, limits.bodyBytesMax);
    try {
      return await readRequestBody(req, res, { bytesMax, budget, uploads }, signal);
    } catch (thrown) {
      throw thrown instanceof BodyError ? this.#errorOf(thrown.fault, signal) : thrown;
    }
  }

  #errorOf(fault: BodyFault, signal: AbortSignal): ServiceError {
    const { bodyBytesMax, bodyRateMin } = this.#deps.limits;
    switch (fault) {
      case "too_large":
        return new ServiceError("request_too_large", `A message may have at most ${bodyBytesMax} bytes.`);
      case "too_slow":
        return new ServiceError("request_timeout", `The body arrived slower than ${bodyRateMin} bytes per second.`);
      case "no_room":
        return new ServiceError("server_is_overloaded", "Too many request bodies are being received.", {
          retryAfterMs: 1_000,
        });
      case "left":
        return new ServiceError("client_closed_request", "The client closed the request.");
      case "aborted":
        return errorOfEnd(signal.reason);
    }
  }
}
