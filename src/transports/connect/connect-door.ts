import type { IncomingMessage, ServerResponse } from "node:http";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { errorRow } from "../../contract/errors.js";
import { headers } from "../../contract/headers.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { type Operation, operationByRpcPath } from "../../contract/operations.js";
import type { Caller } from "../../domain/call/call-context.js";
import type { IdSource } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { Core } from "../../domain/core.js";
import type { RpcService } from "../../domain/rpc/rpc-service.js";
import { rpcStatus } from "../../domain/rpc/rpc-status.js";
import { isRpcPath, unknownRpc } from "../../domain/rpc/unknown-rpc.js";
import type { ByteBudget } from "../../lib/byte-budget.js";
import { pathOf } from "../../lib/request-path.js";
import type { UploadWatch } from "../../lib/upload-watch.js";
import { MessageReader } from "./message-reader.js";
import { refuse } from "./refusal.js";
import { RpcCall, type RpcCallDeps } from "./rpc-call.js";
import { ask, createRpcHandlers, write } from "./rpc-handlers.js";
import { isServedIn, protocolOf, type RpcProtocol, timeoutHeaders, timeoutMsOf } from "./rpc-protocol.js";
import { browserOf } from "./session-cookie.js";
import { errorOfUnread, refusalIn } from "./unread-message.js";

export type RequestListener = (req: IncomingMessage, res: ServerResponse) => void;

export interface ConnectDoorDeps extends RpcCallDeps {
  readonly services: readonly RpcService[];
  readonly core: Core;
  readonly limits: ServiceLimits;
  readonly ids: IdSource;
  /** All bodies that the HTTP listener is receiving. */
  readonly bodies: ByteBudget;
  readonly uploads: UploadWatch;
  /** Serves every path that is no RPC. */
  readonly fallback: RequestListener;
}

interface Rpc {
  readonly handler: UniversalHandler;
  readonly operation: Operation;
}

interface Rpcs {
  readonly byPath: ReadonlyMap<string, Rpc>;
  /** What a message may weigh. */
  readonly messageBytesMax: number;
}

/**
 * The door for Connect and gRPC-Web on the HTTP listener. Order of checks as on REST: unknown path, then credential and
 * scope by `core.open`, then method, content type and size, then the body. What is refused before an operation begins is
 * refused in the request's protocol, in our words.
 */
export function createConnectDoor(deps: ConnectDoorDeps): RequestListener {
  const { core, limits, clock, ids, bodies, uploads, fallback } = deps;
  let rpcs = createRpcs(deps.services, limits.bodyBytesMax);
  const messages = new MessageReader({ limits, budget: bodies, uploads });

  async function serve({ handler, operation }: Rpc, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const requestId = ids.requestId();
    res.setHeader(headers.requestId, requestId);
    const { method } = handler;
    const asked = protocolAsked(req);
    const protocol = isServedIn(asked, method) ? asked : null;
    const timeoutMs = protocol === null ? Number.POSITIVE_INFINITY : timeoutMsOf(protocol, req.headers);
    const deadlineAtMs = clock.now() + (timeoutMs ?? Number.POSITIVE_INFINITY);
    const call = new RpcCall(deps, { method, res, requestId, deadlineAtMs });
    try {
      if (!call.opened(await core.open(operation, callerOf(call, req, res, protocol)))) return;
      if (protocol === null) throw wrongRequest(req, res);
      if (timeoutMs === null) throw wrongTimeout(protocol);
      const body = await messages.read(req, res, protocol, call.abort);
      const answer = await ask(handler, call, req, res, body);
      if (call.isMessageRead) {
        await write(answer, res, call.abort.signal);
        return;
      }
      const refusal = await refusalIn(answer, protocol);
      const error = call.failed(errorOfUnread(refusal, req, protocol, body));
      // The code is the protocol's: clients know bytes that are no message as `internal`.
      refuse(req, res, protocol, { ...rpcStatus(error, method), code: refusal.code }, null);
    } catch (thrown) {
      const error = call.failed(thrown);
      if (res.headersSent) res.destroy();
      else refuse(req, res, protocol, rpcStatus(error, method), protocol === null ? errorRow(error.code).http : null);
    }
  }

  function refuseUnknown(path: string, protocol: RpcProtocol, req: IncomingMessage, res: ServerResponse): void {
    res.setHeader(headers.requestId, ids.requestId());
    const error = unknownRpc(path);
    refuse(req, res, protocol, rpcStatus(error, null), errorRow(error.code).http);
  }

  return (req, res) => {
    // Connect's handlers are told this limit once, so there are new ones when it has changed.
    if (rpcs.messageBytesMax !== limits.bodyBytesMax) rpcs = createRpcs(deps.services, limits.bodyBytesMax);
    const path = pathOf(req);
    const rpc = rpcs.byPath.get(path);
    if (rpc !== undefined) {
      void serve(rpc, req, res);
      return;
    }
    const protocol = isRpcPath(path) ? protocolAsked(req) : null;
    if (protocol === null) fallback(req, res);
    else refuseUnknown(path, protocol, req, res);
  };
}

function createRpcs(services: readonly RpcService[], messageBytesMax: number): Rpcs {
  const byPath = new Map<string, Rpc>();
  for (const [path, handler] of createRpcHandlers(services, messageBytesMax)) {
    byPath.set(path, { handler, operation: operationOf(path) });
  }
  return { byPath, messageBytesMax };
}

function protocolAsked(req: IncomingMessage): RpcProtocol | null {
  return req.method === "POST" ? protocolOf(req.headers["content-type"]) : null;
}

function operationOf(path: string): Operation {
  const operation = operationByRpcPath.get(path);
  if (operation === undefined) throw new Error(`${path} is in no row of the table of operations`);
  return operation;
}

function callerOf(call: RpcCall, req: IncomingMessage, res: ServerResponse, protocol: RpcProtocol | null): Caller {
  const { headers: sent, socket } = req;
  return {
    authorization: sent.authorization,
    deadlineAtMs: call.deadlineAtMs,
    abort: call.abort,
    transport: protocol === "grpc_web" ? "grpc_web" : "connect",
    address: socket.remoteAddress ?? "",
    browser: browserOf(req, res),
    requestId: call.requestId,
    clientRequestId: textOf(sent[headers.clientRequestId]),
    retryCount: textOf(sent[headers.stainlessRetryCount]),
    traceparent: textOf(sent[headers.traceparent]),
  };
}

function textOf(value: string | string[] | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function wrongRequest(req: IncomingMessage, res: ServerResponse): ServiceError {
  if (req.method === "POST") {
    const given = req.headers["content-type"] ?? "none";
    return new ServiceError("unsupported_media_type", `This RPC cannot be called with the content type ${given}.`);
  }
  res.setHeader("allow", "POST");
  return new ServiceError("method_not_allowed", `RPCs are called with POST, not ${req.method}.`);
}

function wrongTimeout(protocol: RpcProtocol): ServiceError {
  return new ServiceError("invalid_value", `The header '${timeoutHeaders[protocol]}' does not hold a timeout.`);
}
