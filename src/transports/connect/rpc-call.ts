import type { ServerResponse } from "node:http";
import type { DescMethod } from "@bufbuild/protobuf";
import { type ConnectError, createContextKey } from "@connectrpc/connect";
import { type CallContext, Ended, errorOfThrown, leaving } from "../../domain/call/call-context.js";
import type { Clock, Logger } from "../../domain/call/ports.js";
import type { ServiceError } from "../../domain/call/service-error.js";
import { rpcStatus } from "../../domain/rpc/rpc-status.js";
import { toConnectError } from "../../lib/connect-error.js";
import { LazyAbort } from "../../lib/lazy-abort.js";
import type { ResponseWatch } from "../../lib/response-watch.js";

export interface RpcCallDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly watch: ResponseWatch;
}

/**
 * One call from its headers to the end of its response. The leave of a client is seen through the response's `close`,
 * never through the signal of Connect's handlers: that one aborts on success, too.
 */
export class RpcCall {
  readonly abort = new LazyAbort();
  readonly requestId: string;
  readonly deadlineAtMs: number;
  readonly #method: DescMethod;
  readonly #log: Logger;
  #ctx: CallContext | undefined;
  #isOver = false;
  #isMessageRead = false;

  /** Listens from now on; `open` would miss a leave that happens during it. */
  constructor(
    { clock, log, watch }: RpcCallDeps,
    call: { method: DescMethod; res: ServerResponse; requestId: string; deadlineAtMs: number },
  ) {
    const { res } = call;
    this.requestId = call.requestId;
    this.deadlineAtMs = call.deadlineAtMs;
    this.#method = call.method;
    this.#log = log;
    const watched = watch.watch(res, {
      stalled: () => {
        this.abort.abort(new Ended("stalled"));
        res.destroy();
      },
    });
    res.once("close", () => {
      this.#isOver = true;
      watched.done();
      if (!res.writableFinished) this.abort.abort(leaving(this.deadlineAtMs, clock.now()));
      this.#ctx?.close();
    });
  }

  get ctx(): CallContext {
    if (this.#ctx === undefined) throw new Error("the call was not opened");
    return this.#ctx;
  }

  /** The core let the call in. False when the client had left meanwhile. */
  opened(ctx: CallContext): boolean {
    this.#ctx = ctx;
    if (this.#isOver) ctx.close();
    return !this.#isOver;
  }

  /** Connect could read the message: from now on the operation answers. */
  messageRead(): void {
    this.#isMessageRead = true;
  }

  get isMessageRead(): boolean {
    return this.#isMessageRead;
  }

  /** Notes how the call failed. Returns what the client is told of it; what it may not see goes to the log. */
  failed(thrown: unknown): ServiceError {
    const error = errorOfThrown(thrown, { signal: this.abort, log: this.#log, requestId: this.requestId });
    this.#ctx?.refused(error);
    return error;
  }

  /** The same in the form that Connect's handlers throw. */
  failedInHandler(thrown: unknown): ConnectError {
    return toConnectError(rpcStatus(this.failed(thrown), this.#method));
  }
}

/** How a handler finds the call that its request belongs to. */
export const rpcCallKey = createContextKey<RpcCall | undefined>(undefined);
