/**
 * The cookie of a dashboard session (KEY-22). Where the browser speaks TLS, with this service or with a proxy in front, the
 * name has the prefix that makes browsers refuse it from any other host, from a plain connection and for a part of the
 * paths only.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
import type { DescMessage } from "@bufbuild/protobuf";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { errorRow } from "../../contract/errors.js";
import { headers } from "../../contract/headers.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { messageBytesMax, type Operation, operationByRpcPath } from "../../contract/operations.js";
import type { Browser } from "../../domain/call/call-context.js";
import type { IdSource } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { checkMessageBounds } from "../../domain/rpc/message-bounds.js";
import type { RpcService } from "../../domain/rpc/rpc-service.js";
import { isRpcPath, rpcStatus, unknownRpc } from "../../domain/rpc/rpc-status.js";
import { BodyReader, type BodyReaderDeps } from "../http/body.js";
import { type CallDeps, callerFromHeaders, headerOf, runCall } from "../http/call.js";
import { checkJsonBounds } from "../http/json-body.js";
import { pathOf, type Route } from "../http/routes.js";
import { ask, createRpcHandlers, RpcCall, write } from "./handlers.js";
import {
  bodyBytesMax,
  errorOfUnread,
  isJsonType,
  isServedIn,
  messageIn,
  protocolOf,
  type RpcProtocol,
  refusalIn,
  refuse,
  timeoutHeaders,
  timeoutMsOf,
} from "./protocol.js";

export interface ConnectDeps extends CallDeps, BodyReaderDeps {
  readonly services: readonly RpcService[];
  readonly limits: ServiceLimits;
  readonly ids: IdSource;
}

/** What the RPC transport serves on the HTTP listener. */
interface ConnectRoutes {
  readonly routes: readonly Route[];
  /** Answers a path that has no route, if it was called as an RPC; else false. */
  refuseUnknown(req: IncomingMessage, res: ServerResponse): boolean;
}

interface Rpc {
  readonly handler: UniversalHandler;
  readonly operation: Operation;
}

interface Rpcs {
  readonly byPath: ReadonlyMap<string, Rpc>;
  /** Size limit of a message. */
  readonly messageBytesMax: number;
}

/**
 * Connect and gRPC-Web on the HTTP listener. Order of checks as on REST: unknown path, then credential and scope by
 * `core.open`, then method, content type and size, then the body. An error before the operation begins is written in the
 * request's protocol.
 */
export function createConnectRoutes(deps: ConnectDeps): ConnectRoutes {
  const { limits, ids } = deps;
  let rpcs = createRpcs(deps.services, limits.bodyBytesMax);
  const bodies = new BodyReader(deps);

  /** Connect's handlers are given the size limit once, so they are created again when it has changed. */
  function rpcAt(path: string): Rpc {
    if (rpcs.messageBytesMax !== limits.bodyBytesMax) rpcs = createRpcs(deps.services, limits.bodyBytesMax);
    const rpc = rpcs.byPath.get(path);
    if (rpc === undefined) throw new Error(`${path} has no handler`);
    return rpc;
  }

  function serve({ handler, operation }: Rpc, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const requestId = ids.requestId();
    res.setHeader(headers.requestId, requestId);
    const { method } = handler;
    const asked = protocolAsked(req);
    const protocol = isServedIn(asked, method) ? asked : null;
    const timeoutMs = protocol === null ? Number.POSITIVE_INFINITY : timeoutMsOf(protocol, req.headers);
    const call = new RpcCall(deps, req, res, { method, requestId, timeoutMs: timeoutMs ?? Number.POSITIVE_INFINITY });
    call.watch();
    const caller = callerFromHeaders((name) => headerOf(req, name), {
      deadlineAtMs: call.deadlineAtMs,
      abort: call.signal,
      transport: protocol === "grpc_web" ? "grpc_web" : "connect",
      address: req.socket.remoteAddress ?? "",
      browser: browserOf(req, res),
      requestId,
    });

    async function answer(): Promise<void> {
      if (protocol === null) throw wrongRequest(req, res);
      if (timeoutMs === null) throw wrongTimeout(protocol);
      const bytesMax = bodyBytesMax(protocol, messageBytesMax(operation, limits));
      const body = await bodies.read({ req, res, signal: call.signal, ctx: call.ctx, bytesMax }, (bytes) => bytes);
      checkBounds(method.input, messageIn(body, protocol), isJsonType(req.headers["content-type"]), limits);
      const answered = await ask(handler, call, req, res, body);
      if (call.isMessageRead) {
        await write(answered, res, call.signal.signal);
        return;
      }
      const refusal = await refusalIn(answered, protocol);
      const error = call.failed(errorOfUnread(refusal, req, protocol, body));
      // The code is the protocol's: clients expect `internal` for bytes that are no message.
      refuse(req, res, protocol, { ...rpcStatus(error, method), code: refusal.code }, null);
    }

    return runCall(deps, call, operation, caller, answer, (error) =>
      refuse(req, res, protocol, rpcStatus(error, method), protocol === null ? errorRow(error.code).http : null),
    );
  }

  return {
    routes: [...rpcs.byPath.keys()].map((path) => ({
      path,
      handle: (req, res) => void serve(rpcAt(path), req, res),
    })),

    refuseUnknown(req, res) {
      const path = pathOf(req);
      const protocol = isRpcPath(path) ? protocolAsked(req) : null;
      if (protocol === null) return false;
      res.setHeader(headers.requestId, ids.requestId());
      const error = unknownRpc(path);
      refuse(req, res, protocol, rpcStatus(error, null), errorRow(error.code).http);
      return true;
    },
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
  if (operation === undefined) throw new Error(`${path} is missing from the table of operations`);
  return operation;
}

/** Refuses a message that would become too many objects, before it is decoded. */
function checkBounds(desc: DescMessage, message: Buffer, isJson: boolean, limits: ServiceLimits): void {
  if (isJson) checkJsonBounds(message, limits);
  else checkMessageBounds(desc, message, limits);
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

const userAgentCharsMax = 256;

const plainName = "uis_session";
const secureName = `__Host-${plainName}`;

/** What the browser sent, and how to set its cookie. */
export function browserOf(req: IncomingMessage, res: ServerResponse): Browser {
  const { cookie, origin, host } = req.headers;
  const isTls = req.socket instanceof TLSSocket;
  // Behind a proxy that terminates TLS the origin still says https: browsers send it with every call of the dashboard.
  const isSecure = isTls || origin?.toLowerCase() === `https://${host?.toLowerCase()}`;
  const name = isSecure ? secureName : plainName;
  return {
    // Requests from other origins behind such a proxy are recognised by their session, too, and rejected for the origin.
    sessionToken: cookieOf(cookie, name) ?? (isTls ? undefined : cookieOf(cookie, secureName)),
    isSameOrigin: isSameOrigin(req, isTls),
    userAgent: (req.headers["user-agent"] ?? "").slice(0, userAgentCharsMax),
    keepSession(token, forMs) {
      const seconds = token === null ? 0 : Math.floor(forMs / 1_000);
      const attributes = `Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${isSecure ? "; Secure" : ""}`;
      res.setHeader("set-cookie", `${name}=${token ?? ""}; ${attributes}`);
      res.setHeader("cache-control", "no-store");
    },
  };
}

/** The value of a cookie; undefined without one, and for two of the name, as one of them may be planted. */
function cookieOf(header: string | undefined, name: string): string | undefined {
  if (header === undefined) return undefined;
  const values = header
    .split(";")
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1));
  return values.length === 1 ? values[0] : undefined;
}

/**
 * Checks `Sec-Fetch-Site`, where the browser sends it, and `Origin`. On a plain connection the origin may be https,
 * too: a proxy in front of this service may terminate TLS.
 */
function isSameOrigin({ headers }: IncomingMessage, isTls: boolean): boolean | undefined {
  const { origin, host } = headers;
  const site = headers["sec-fetch-site"];
  if (site !== undefined && site !== "same-origin") return false;
  if (origin === undefined) return undefined;
  const lower = origin.toLowerCase();
  const here = host?.toLowerCase() ?? "";
  return lower === `https://${here}` || (!isTls && lower === `http://${here}`);
}
