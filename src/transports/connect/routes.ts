import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
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
import { type BodyDeps, readBody } from "../http/body.js";
import { type CallDeps, callerFromHeaders, headerOf } from "../http/call.js";
import { checkJsonBounds } from "../http/json-scan.js";
import { pathOf, type Route } from "../http/routes.js";
import { callHandler, createRpcHandlers, RpcCall, writeResponse } from "./handlers.js";
import {
  answerError,
  bodyBytesMax,
  errorOfUnread,
  isJsonType,
  isServedIn,
  messageIn,
  protocolOf,
  type RpcProtocol,
  readError,
  timeoutHeaders,
  timeoutMsOf,
} from "./protocol.js";

export interface ConnectDeps extends CallDeps, BodyDeps {
  readonly services: readonly RpcService[];
  readonly limits: ServiceLimits;
  readonly ids: IdSource;
}

/**
 * Connect and gRPC-Web on the HTTP listener. Order of checks as on REST: unknown path, then credential and scope by
 * `core.open`, then method, content type and size, then the body. An error before the operation begins is written in the
 * request's protocol.
 */
export function createConnectRoutes(deps: ConnectDeps) {
  const { services, limits, ids } = deps;
  let handlersBytesMax = limits.bodyBytesMax;
  let handlers = createRpcHandlers(services, handlersBytesMax);

  function handlerOf(path: string): UniversalHandler {
    // Connect's handlers are given the size limit once, so they are created again when it has changed.
    if (handlersBytesMax !== limits.bodyBytesMax) {
      handlersBytesMax = limits.bodyBytesMax;
      handlers = createRpcHandlers(services, handlersBytesMax);
    }
    const handler = handlers.get(path);
    if (handler === undefined) throw new Error(`${path} has no handler`);
    return handler;
  }

  function routeOf(path: string): Route {
    const operation = operationByRpcPath.get(path);
    if (operation === undefined) throw new Error(`${path} is missing from the table of operations`);
    return { path, handle: (req, res) => void serve(handlerOf(path), operation, req, res) };
  }

  function serve(
    handler: UniversalHandler,
    operation: Operation,
    req: IncomingMessage,
    res: ServerResponse,
  ): Promise<void> {
    const requestId = ids.requestId();
    res.setHeader(headers.requestId, requestId);
    const { method } = handler;
    const requested = requestedProtocol(req);
    const protocol = requested !== null && isServedIn(requested, method) ? requested : null;
    const timeoutMs = protocol === null ? Number.POSITIVE_INFINITY : timeoutMsOf(protocol, req.headers);
    const call = new RpcCall(deps, req, res, requestId, timeoutMs ?? Number.POSITIVE_INFINITY);
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
      if (timeoutMs === null) {
        const message = `The header '${timeoutHeaders[protocol]}' is not a valid timeout.`;
        throw new ServiceError("invalid_value", message);
      }
      const bytesMax = bodyBytesMax(protocol, messageBytesMax(operation, limits));
      const body = await readBody(deps, call, bytesMax, (bytes) => bytes);
      const message = messageIn(body, protocol);
      // A message that would become too many objects is refused before it is decoded.
      if (isJsonType(req.headers["content-type"])) checkJsonBounds(message.toString("latin1"), limits);
      else checkMessageBounds(method.input, message, limits);
      const response = await callHandler(handler, call, body);
      if (call.isMessageRead) {
        await writeResponse(response, res, call.signal.signal);
        return;
      }
      const own = await readError(response, protocol);
      const error = call.failed(errorOfUnread(own, req, message));
      // The code is the protocol's: clients expect `internal` for bytes that are not a message.
      answerError(req, res, protocol, { ...rpcStatus(error, method), code: own.code }, null);
    }

    return call.run(operation, caller, answer, (error) =>
      answerError(req, res, protocol, rpcStatus(error, method), protocol === null ? errorRow(error.code).http : null),
    );
  }

  return {
    routes: [...handlers.keys()].map(routeOf),

    /** Answers a path that has no route, if it was called as an RPC; else false. */
    refuseUnknown(req: IncomingMessage, res: ServerResponse): boolean {
      const path = pathOf(req);
      const protocol = isRpcPath(path) ? requestedProtocol(req) : null;
      if (protocol === null) return false;
      res.setHeader(headers.requestId, ids.requestId());
      const error = unknownRpc(path);
      answerError(req, res, protocol, rpcStatus(error, null), errorRow(error.code).http);
      return true;
    },
  };
}

function requestedProtocol(req: IncomingMessage): RpcProtocol | null {
  return req.method === "POST" ? protocolOf(req.headers["content-type"]) : null;
}

function wrongRequest(req: IncomingMessage, res: ServerResponse): ServiceError {
  if (req.method === "POST") {
    const given = req.headers["content-type"] ?? "none";
    return new ServiceError("unsupported_media_type", `This RPC cannot be called with the content type ${given}.`);
  }
  res.setHeader("allow", "POST");
  return new ServiceError("method_not_allowed", `RPCs are called with POST, not ${req.method}.`);
}

const userAgentCharsMax = 256;
const sessionName = "uis_session";
/** Marks a browser that has signed in before; it outlives the session. */
const knownName = "uis_browser";
const securePrefix = "__Host-";

/**
 * What the browser sent, and how to set the cookie of its dashboard session (KEY-22). Where the browser uses TLS, with
 * this service or with a proxy in front, the cookie's name has the prefix that makes browsers refuse it from any other
 * host, from a plain connection and for a part of the paths only.
 */
export function browserOf(req: IncomingMessage, res: ServerResponse): Browser {
  const { cookie, origin, host } = req.headers;
  const isTls = req.socket instanceof TLSSocket;
  // Behind a proxy that terminates TLS the origin is still https: browsers send it with every call of the dashboard.
  const isSecure = isTls || origin?.toLowerCase() === `https://${host?.toLowerCase()}`;
  const prefix = isSecure ? securePrefix : "";
  const setCookie = (name: string, value: string, forMs: number): void => {
    const attributes = `Path=/; Max-Age=${Math.floor(forMs / 1_000)}; HttpOnly; SameSite=Strict`;
    res.appendHeader("set-cookie", `${prefix}${name}=${value}; ${attributes}${isSecure ? "; Secure" : ""}`);
    res.setHeader("cache-control", "no-store");
  };
  return {
    // Requests from other origins behind such a proxy are recognised by their session, too, and rejected for the origin.
    sessionToken:
      cookieOf(cookie, `${prefix}${sessionName}`) ??
      (isTls ? undefined : cookieOf(cookie, `${securePrefix}${sessionName}`)),
    knownToken: cookieOf(cookie, `${prefix}${knownName}`),
    isSameOrigin: isSameOrigin(req, isTls),
    userAgent: (req.headers["user-agent"] ?? "").slice(0, userAgentCharsMax),
    keepSession: (token, forMs) => setCookie(sessionName, token ?? "", token === null ? 0 : forMs),
    keepKnown: (token, forMs) => setCookie(knownName, token, forMs),
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
