import type { IncomingMessage, ServerResponse } from "node:http";
import { TLSSocket } from "node:tls";
import { create, type Message } from "@bufbuild/protobuf";
import { errorRow } from "../../contract/errors.js";
import { headers } from "../../contract/headers.js";
import type { ServiceLimits } from "../../contract/limits.js";
import { messageBytesMax, type Operation, operationByRpcPath, secretOperations } from "../../contract/operations.js";
import type { Browser } from "../../domain/call/call-context.js";
import type { IdSource } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { RpcHandler, RpcService, RpcStream } from "../../domain/rpc/rpc-service.js";
import { isRpcPath, rpcStatus, type StatusParts, unknownRpc } from "../../domain/rpc/rpc-status.js";
import { grpcPath } from "../../lib/grpc-definition.js";
import { writeText } from "../http/answer.js";
import { type BodyDeps, readBody } from "../http/body.js";
import { Call, type CallDeps, callerFromHeaders, headerOf } from "../http/call.js";
import { pathOf, type Route } from "../http/routes.js";
import { type StreamWriter, streamWriterOf } from "../http/stream.js";
import {
  bodyBytesMax,
  checkEncoding,
  encodeAnswer,
  encodeMessage,
  readMessage,
  UnreadableMessage,
} from "./messages.js";
import {
  answerError,
  endEnvelope,
  enveloped,
  formOf,
  isServedIn,
  type RpcForm,
  timeoutHeaders,
  timeoutMsOf,
} from "./protocol.js";

export interface ConnectDeps extends CallDeps, BodyDeps {
  readonly services: readonly RpcService[];
  readonly limits: ServiceLimits;
  readonly ids: IdSource;
}

/**
 * Connect and gRPC-Web on the HTTP listener. The order of checks is the same as for REST: unknown path, then credential and
 * scope by `core.open`, then method, content type and size, then the body. Errors are written in the request's protocol.
 */
export function createConnectRoutes(deps: ConnectDeps) {
  const { services, limits, ids } = deps;

  function routeOf(handler: RpcHandler): Route {
    const path = grpcPath(handler.method);
    const operation = operationByRpcPath.get(path);
    if (operation === undefined) throw new Error(`${path} is missing from the table of operations`);
    return {
      path,
      handle: (req, res) => void serve(handler, operation, req, res),
      refuse: (req, res, error) => answerFault(req, res, rpcStatus(error, handler.method), errorRow(error.code).http),
    };
  }

  /** Answers a request that no handler has taken, in its own protocol. `httpStatus` is used where the protocol has no status. */
  function answerFault(req: IncomingMessage, res: ServerResponse, status: StatusParts, httpStatus: number): void {
    answerError(req, res, requestedForm(req)?.protocol ?? null, status, ids.requestId(), httpStatus);
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
      if (secretOperations.has(operation)) res.setHeader("cache-control", "no-store");
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

    /** Answers a request whose path has no route, if it is an RPC call, and returns true. False: it is not an RPC call. */
    refuseUnknown(req: IncomingMessage, res: ServerResponse): boolean {
      const path = pathOf(req);
      if (!isRpcPath(path) || requestedForm(req) === null) return false;
      const error = unknownRpc(path);
      answerFault(req, res, rpcStatus(error, null), errorRow(error.code).http);
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
/** Name of the cookie that marks a browser that has signed in before; it is valid longer than the session. */
const knownName = "uis_browser";
const securePrefix = "__Host-";

/**
 * The cookies and other properties that the browser sent, and functions that set its cookies (KEY-22). If the browser uses
 * TLS, to this service or to a proxy in front of it, the names of cookies begin with `__Host-`: browsers then accept them
 * only from this host, over TLS and for all paths.
 */
export function browserOf(req: IncomingMessage, res: ServerResponse): Browser {
  const { cookie, origin, host } = req.headers;
  const isTls = req.socket instanceof TLSSocket;
  // Behind a proxy that terminates TLS the Origin header is still https; browsers send it with every call of the dashboard.
  const isSecure = isTls || origin?.toLowerCase() === `https://${host?.toLowerCase()}`;
  const prefix = isSecure ? securePrefix : "";
  const setCookie = (name: string, value: string, forMs: number): void => {
    const attributes = `Path=/; Max-Age=${Math.floor(forMs / 1_000)}; HttpOnly; SameSite=Strict`;
    res.appendHeader("set-cookie", `${prefix}${name}=${value}; ${attributes}${isSecure ? "; Secure" : ""}`);
    res.setHeader("cache-control", "no-store");
  };
  return {
    // Behind such a proxy, a request from another origin is not secure by the test above. Its session is read nevertheless,
    // so that it is rejected because of its origin.
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

/** The value of a cookie. Undefined if there is none, or two with the name: an attacker may have set one of them. */
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
 * Whether a request comes from a page of this service, by `Sec-Fetch-Site` and `Origin`; undefined: the browser sent no
 * origin. On a plain connection the origin may also be https, because a proxy in front of this service may terminate TLS.
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

type Streaming = Extract<RpcHandler, { kind: "server_streaming" }>;

/** Calls a handler with the message of a request, and writes its answer. Rejects only if the answer has not begun. */
async function answerCall(handler: RpcHandler, form: RpcForm, call: Call, request: Message): Promise<void> {
  /** Headers of the answer, names and values in turn. */
  const head = ["content-type", form.contentType, headers.requestId, call.requestId];
  const addToHead = (fields: readonly string[]): void => {
    for (const text of fields) head.push(text);
  };
  if (handler.kind === "server_streaming") {
    const stream = await handler.call(request, call.ctx, addToHead);
    const writer = streamWriterOf(call, true);
    writer.begin(head);
    await writeStream(handler, form, call, stream, writer);
    return;
  }
  const { output } = handler.method;
  const response = create(output, await handler.call(request, call.ctx, addToHead));
  writeUnary(call.res, form, head, await encodeAnswer(form, output, response));
}

/** The trailers of every successful unary answer of gRPC-Web. */
const grpcWebEnd = endEnvelope("grpc_web", null);

function writeUnary(res: ServerResponse, form: RpcForm, head: string[], message: Uint8Array | string): void {
  if (res.headersSent || res.destroyed) return;
  const body = form.protocol === "grpc_web" ? Buffer.concat([enveloped(0, message), grpcWebEnd]) : message;
  const bytes = Buffer.byteLength(body);
  head.push("content-length", `${bytes}`);
  res.writeHead(200, head);
  // A body that is written as text is sent in one piece with the head.
  writeText(res, typeof body === "string" ? body : latin1Of(body), bytes);
  res.end();
}

function latin1Of({ buffer, byteOffset, length }: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, length).toString("latin1");
}

/**
 * Writes the messages of a stream in envelopes, with backpressure. A failure is written as the last envelope, which a slow
 * reader still receives.
 */
async function writeStream(
  { method }: Streaming,
  form: RpcForm,
  call: Call,
  stream: RpcStream<Message>,
  writer: StreamWriter,
): Promise<void> {
  const { res, signal } = call;
  let failure: ServiceError | null = null;
  try {
    for await (const item of stream.items) {
      writer.write(latin1Of(enveloped(0, encodeMessage(form, method.output, item))));
      if (writer.isBehind) await writer.drained(signal);
      if (res.destroyed) return;
    }
  } catch (thrown) {
    failure = call.failed(thrown);
  }
  if (res.destroyed || form.protocol === "connect_unary") return;
  writer.end(latin1Of(endEnvelope(form.protocol, failure && rpcStatus(failure, method), stream.trailers?.())));
}
