import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
import { errorRow } from "../../contract/errors.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { messageBytesMax, type Operation, operationByRpcPath } from "../../contract/operations.js";
import type { Browser } from "../../domain/call/call-context.js";
import type { IdSource } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { RpcHandler, RpcService } from "../../domain/rpc/rpc-service.js";
import { isRpcPath, rpcStatus, unknownRpc } from "../../domain/rpc/rpc-status.js";
import { grpcPath } from "../../lib/grpc-definition.js";
import { type BodyDeps, readBody } from "../http/body.js";
import { Call, type CallDeps, callerFromHeaders, headerOf } from "../http/call.js";
import { pathOf, type Route } from "../http/routes.js";
import { answerCall } from "./handlers.js";
import { bodyBytesMax, checkEncoding, readMessage, UnreadableMessage } from "./messages.js";
import { answerError, formOf, isServedIn, type RpcForm, timeoutHeaders, timeoutMsOf } from "./protocol.js";

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

  function routeOf(handler: RpcHandler): Route {
    const path = grpcPath(handler.method);
    const operation = operationByRpcPath.get(path);
    if (operation === undefined) throw new Error(`${path} is missing from the table of operations`);
    return { path, handle: (req, res) => void serve(handler, operation, req, res) };
  }

  function serve(handler: RpcHandler, operation: Operation, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const requestId = ids.requestId();
    const { method } = handler;
    const requested = requestedForm(req);
    const form = requested !== null && isServedIn(requested.protocol, method) ? requested : null;
    const timeoutMs = form === null ? Number.POSITIVE_INFINITY : timeoutMsOf(form.protocol, req.headers);
    const call = new Call(deps, req, res, requestId, timeoutMs ?? Number.POSITIVE_INFINITY);
    const caller = callerFromHeaders((name) => headerOf(req, name), {
      deadlineAtMs: call.deadlineAtMs,
      abort: call.signal,
      transport: form?.protocol === "grpc_web" ? "grpc_web" : "connect",
      address: req.socket.remoteAddress ?? "",
      browser: browserOf(req, res),
      requestId,
    });

    async function answer(): Promise<void> {
      if (form === null) throw wrongRequest(req, res);
      const { protocol } = form;
      if (timeoutMs === null) {
        const message = `The header '${timeoutHeaders[protocol]}' is not a valid timeout.`;
        throw new ServiceError("invalid_value", message);
      }
      checkEncoding(protocol, req);
      const bytesMax = bodyBytesMax(protocol, messageBytesMax(operation, limits));
      const request = await readBody(deps, call, bytesMax, (body) => readMessage(form, method.input, body, limits));
      await answerCall(handler, form, call, request);
    }

    return call.run(operation, caller, answer, (error) => {
      const status = rpcStatus(error, method);
      const code = error instanceof UnreadableMessage ? error.rpcCode : status.code;
      const httpStatus = form === null ? errorRow(error.code).http : null;
      answerError(req, res, form?.protocol ?? null, { ...status, code }, requestId, httpStatus);
    });
  }

  return {
    routes: services.flatMap(({ handlers }) => handlers.map(routeOf)),

    /** Answers a path that has no route, if it was called as an RPC; else false. */
    refuseUnknown(req: IncomingMessage, res: ServerResponse): boolean {
      const path = pathOf(req);
      const form = isRpcPath(path) ? requestedForm(req) : null;
      if (form === null) return false;
      const error = unknownRpc(path);
      answerError(req, res, form.protocol, rpcStatus(error, null), ids.requestId(), errorRow(error.code).http);
      return true;
    },
  };
}

function requestedForm(req: IncomingMessage): RpcForm | null {
  return req.method === "POST" ? formOf(req.headers["content-type"]) : null;
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
