import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { Message } from "@bufbuild/protobuf";
import {
  createConnectRouter,
  createContextKey,
  createContextValues,
  type HandlerContext,
  type ServiceImpl,
} from "@connectrpc/connect";
import { createAsyncIterable, type UniversalHandler, type UniversalServerResponse } from "@connectrpc/connect/protocol";
import { universalRequestFromNodeRequest } from "@connectrpc/connect-node";
import type { RpcHandler, RpcHead, RpcService, RpcStream } from "../../domain/rpc/rpc-service.js";
import { rpcStatus } from "../../domain/rpc/rpc-status.js";
import { Call } from "../http/call.js";
import { timeoutHeaders, toConnectError } from "./protocol.js";

/** A call of an RPC. The signal of Connect's handlers is not used: it aborts on success, too. */
export class RpcCall extends Call {
  /** Connect has read the message: from now on the operation answers. */
  isMessageRead = false;
}

const callKey = createContextKey<RpcCall | undefined>(undefined);

/**
 * Connect's handlers of the services, by request path, for Connect and gRPC-Web. gRPC itself has its own listener, and
 * messages are not compressed: inference answers are small or are streamed.
 */
export function createRpcHandlers(
  services: readonly RpcService[],
  messageBytesMax: number,
): ReadonlyMap<string, UniversalHandler> {
  const router = createConnectRouter({
    grpc: false,
    acceptCompression: [],
    readMaxBytes: messageBytesMax,
    // Unknown fields are dropped: each one that is kept becomes an object.
    binaryOptions: { readUnknownFields: false },
  });
  for (const { desc, handlers } of services) {
    const methods = handlers.map((handler) => [handler.method.localName, implementationOf(handler)]);
    router.service(desc, Object.fromEntries(methods) as ServiceImpl<typeof desc>);
  }
  return new Map(router.handlers.map((handler) => [handler.requestPath, handler]));
}

function implementationOf(handler: RpcHandler) {
  const failure = (call: RpcCall, thrown: unknown) => toConnectError(rpcStatus(call.failed(thrown), handler.method));
  if (handler.kind === "unary") {
    return async (request: Message, context: HandlerContext) => {
      const call = callOf(context);
      try {
        return await handler.call(request, call.ctx, headOf(context));
      } catch (thrown) {
        throw failure(call, thrown);
      }
    };
  }
  return async function* (request: Message, context: HandlerContext): AsyncIterable<Message> {
    const call = callOf(context);
    let stream: RpcStream<Message> | undefined;
    try {
      stream = await handler.call(request, call.ctx, headOf(context));
      yield* stream.items;
    } catch (thrown) {
      throw failure(call, thrown);
    } finally {
      setAll(context.responseTrailer, stream?.trailers?.());
    }
  };
}

function headOf({ responseHeader }: HandlerContext): RpcHead {
  return (metadata) => setAll(responseHeader, metadata);
}

function setAll(headers: Headers, fields: Readonly<Record<string, string>> = {}): void {
  for (const [name, value] of Object.entries(fields)) headers.set(name, value);
}

function callOf({ values }: HandlerContext): RpcCall {
  const call = values.get(callKey);
  if (call === undefined) throw new Error("a request reached its handler without an open call");
  call.isMessageRead = true;
  return call;
}

/**
 * Passes a call to its handler. With `writeResponse` this replaces Connect's own adapter for Node, which reads the
 * request itself, writes to the console and takes no signal that ends a request.
 */
export function callHandler(
  handler: UniversalHandler,
  call: RpcCall,
  body: Uint8Array,
): Promise<UniversalServerResponse> {
  const values = createContextValues().set(callKey, call);
  const request = universalRequestFromNodeRequest(call.req, call.res, undefined, values);
  // The core enforces the deadline; a second timer would only abort the handler's own signal, which is unused.
  for (const name of Object.values(timeoutHeaders)) request.header.delete(name);
  return handler({ ...request, body: createAsyncIterable([body]) });
}

/** Writes the response of a handler with backpressure. */
export async function writeResponse(
  { status, header, body }: UniversalServerResponse,
  res: ServerResponse,
  signal: AbortSignal,
): Promise<void> {
  res.writeHead(status, Object.fromEntries(header ?? []));
  for await (const bytes of body ?? []) {
    if (res.write(bytes)) continue;
    try {
      await once(res, "drain", { signal });
    } catch (thrown) {
      // After an abort the body ends by itself with an error, which a slow reader still receives.
      if (!signal.aborted) throw thrown;
    }
  }
  res.end();
}
