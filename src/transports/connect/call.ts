import type { IncomingMessage, ServerResponse } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import { type ConnectError, createContextKey } from "@connectrpc/connect";
import { rpcStatus } from "../../domain/rpc/rpc-status.js";
import { Call, type CallDeps } from "../http/call.js";
import { toConnectError } from "./status.js";

/** A call of an RPC. The signal of Connect's handlers is not used: it aborts on success, too. */
export class RpcCall extends Call {
  readonly #method: DescMethod;
  #isMessageRead = false;

  constructor(
    deps: CallDeps,
    req: IncomingMessage,
    res: ServerResponse,
    rpc: { readonly requestId: string; readonly timeoutMs: number; readonly method: DescMethod },
  ) {
    super(deps, req, res, rpc.requestId, rpc.timeoutMs);
    this.#method = rpc.method;
  }

  /** Connect has read the message: from now on the operation answers. */
  messageRead(): void {
    this.#isMessageRead = true;
  }

  get isMessageRead(): boolean {
    return this.#isMessageRead;
  }

  /** Records how the call failed, and returns the error in the form that Connect's handlers throw. */
  failedInHandler(thrown: unknown): ConnectError {
    return toConnectError(rpcStatus(this.failed(thrown), this.#method));
  }
}

/** The call of a request, for its handler. */
export const rpcCallKey = createContextKey<RpcCall | undefined>(undefined);
