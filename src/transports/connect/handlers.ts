import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { DescMethod, Message } from "@bufbuild/protobuf";
import {
  type ConnectError,
  type ConnectRouter,
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type ServiceImpl,
} from "@connectrpc/connect";
import { createAsyncIterable, type UniversalHandler, type UniversalServerResponse } from "@connectrpc/connect/protocol";
import { universalRequestFromNodeRequest } from "@connectrpc/connect-node";
import type { RpcHandler, RpcHead, RpcService } from "../../domain/rpc/rpc-service.js";
import { rpcStatus } from "../../domain/rpc/rpc-status.js";
import { Call, type CallDeps } from "../http/call.js";
import { timeoutHeaders, toConnectError } from "./protocol.js";

/**
 * Connect's handlers of the services, by request path, for Connect and gRPC-Web. gRPC itself has its own listener, and
 * messages are not compressed: inference answers are small or are streamed.
 */
export function createRpcHandlers(
  services: readonly RpcService[],
  messageBytesMax: number,
): Map<string, UniversalHandler> {
  const router = createConnectRouter({
    grpc: false,
    acceptCompression: [],
    readMaxBytes: messageBytesMax,
    // Unknown fields are dropped: each one that is kept becomes an object.
    binaryOptions: { readUnknownFields: false },
  });
  for (const service of services) addService(router, service);
  return new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
}

function addService(router: ConnectRouter, { desc, handlers }: RpcService): void {
  const methods = handlers.map((handler) => [
    handler.method.localName,
    handler.kind === "unary" ? unary(handler) : streaming(handler),
  ]);
  router.service(desc, Object.fromEntries(methods) as ServiceImpl<typeof desc>);
}

function unary({ call: answer }: Extract<RpcHandler, { kind: "unary" }>) {
  return async (request: Message, context: HandlerContext) => {
    const call = callOf(context);
    try {
      return await answer(request, call.ctx, headOf(context));
    } catch (thrown) {
      throw call.failedInHandler(thrown);
    }
  };
}

function streaming({ call: answer }: Extract<RpcHandler, { kind: "server_streaming" }>) {
  return async function* (request: Message, context: HandlerContext): AsyncIterable<Message> {
    const call = callOf(context);
    try {
      yield* (await answer(request, call.ctx, headOf(context))).items;
    } catch (thrown) {
      throw call.failedInHandler(thrown);
    }
  };
}

function headOf({ responseHeader }: HandlerContext): RpcHead {
  return (metadata) => {
    for (const [name, value] of Object.entries(metadata)) responseHeader.set(name, value);
  };
}

function callOf({ values }: HandlerContext): RpcCall {
  const call = values.get(rpcCallKey);
  if (call === undefined) throw new Error("a request reached its handler unopened");
  call.messageRead();
  return call;
}

/**
 * Passes a call to its handler. With `write` this replaces Connect's own adapter for Node, which
 * reads the request itself, writes to the console and cannot be told that a request has ended.
 */
export function ask(
  handler: UniversalHandler,
  call: RpcCall,
  req: IncomingMessage,
  res: ServerResponse,
  body: Uint8Array,
): Promise<UniversalServerResponse> {
  const values = createContextValues().set(rpcCallKey, call);
  const request = universalRequestFromNodeRequest(req, res, undefined, values);
  // The core enforces the deadline; a second timer would only abort the handler's own signal, which is unused.
  for (const name of Object.values(timeoutHeaders)) request.header.delete(name);
  return handler({ ...request, body: createAsyncIterable([body]) });
}

/** Writes the response of a handler with backpressure. */
export async function write(
  { status, header, body }: UniversalServerResponse,
  res: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  res.writeHead(status, Object.fromEntries(header ?? []));
  for await (const bytes of body ?? []) {
    if (!res.write(bytes)) await drainOrAbort(res, signal);
  }
  res.end();
}

/** After an abort the body ends by itself with an error, which a slow reader still receives. */
async function drainOrAbort(res: ServerResponse, signal: AbortSignal): Promise<void> {
  try {
    await once(res, "drain", { signal });
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
  }
}

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
const rpcCallKey = createContextKey<RpcCall | undefined>(undefined);
