import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { headers } from "../../contract/headers.js";
import type { ServiceLimits } from "../../contract/limits.js";
import type { IdSource, Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { TlsFiles } from "../../lib/network.js";
import { answerAndLinger, answerRaw, errorHead, errorOfParser, MarkedResponse } from "./answer.js";
import type { ConnectionLimit } from "./connection-limit.js";
import { createCors, pathOf, type RouteTable } from "./routes.js";

export interface HttpListenerDeps {
  readonly limits: ServiceLimits;
  readonly corsOrigins: readonly string[];
  readonly allowedHosts: readonly string[];
  /** Null: plain HTTP. */
  readonly tls: TlsFiles | null;
  /** Null: connections are not limited. */
  readonly connectionLimit: ConnectionLimit | null;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly routes: RouteTable;
  /** JSON of an error that the listener itself answers because no route does. */
  readonly errorToJson: (error: ServiceError) => object;
}

export type HttpListener = ReturnType<typeof createHttpListener>;

/** Two years: the preload lists of browsers require at least one. */
const strictTransportSecurity = "max-age=63072000";
/** Maximum interval between two checks of the head and body timeouts (SEC-6). */
const timeoutCheckMsMax = 1_000;
const closeGraceMs = 1_000;
/** Error codes after which no answer can be sent: the connection was reset, or closed in the middle of a request. */
const leavingCodes: ReadonlySet<string> = new Set(["ECONNRESET", "HPE_INVALID_EOF_STATE"]);

/**
 * The HTTP/1.1 listener: bounds of a request's head, cross-origin requests, malformed requests, TLS and draining. Every
 * path is served by the route table.
 */
export function createHttpListener(deps: HttpListenerDeps) {
  const { limits, ids, log, tls, routes, connectionLimit } = deps;
  const cors = createCors(deps.corsOrigins);
  const hasCors = deps.corsOrigins.length > 0;
  const allowedHosts = deps.allowedHosts.map((host) => host.toLowerCase());
  const security = ["x-content-type-options", "nosniff"];
  if (tls !== null) security.push("strict-transport-security", strictTransportSecurity);
  const sockets = new Set<Socket>();
  /** Connections that get no further answer: later parser errors on them are ignored. */
  const refusedSockets = new WeakSet<Duplex>();
  let isDraining = false;
  const pipelines = createPipelines(serve, () => {
    if (isDraining) setImmediate(() => server.closeIdleConnections());
  });

  function serve(req: IncomingMessage, res: MarkedResponse): void {
    res.marks = hasCors ? [...security, ...cors.headersOf(req)] : security;
    if (isDraining) res.shouldKeepAlive = false;
    const isFull = connectionLimit !== null && connectionLimit.refusedOpen > 0;
    const fault = findHeadFault(req, limits, allowedHosts) ?? (isFull ? connectionLimit.faultOf(req, res) : undefined);
    if (fault !== undefined) {
      res.shouldKeepAlive = false;
      refusedSockets.add(req.socket);
      const path = pathOf(req);
      // For an unknown path, 404 takes precedence over a fault of the head. A target that is not a path has no route.
      if (routes.has(path) || !path.startsWith("/")) {
        refuse(req, res, fault);
        return;
      }
    }
    const preflight = cors.preflight(req);
    if (preflight === null) {
      routes.serve(req, res);
      return;
    }
    res.marks = [...security, ...preflight];
    res.writeHead(204, { [headers.requestId]: ids.requestId() }).end();
  }

  function refuse(req: IncomingMessage, res: ServerResponse, error: ServiceError): void {
    const ofRoute = routes.routeOf(req)?.refuse;
    const { status, headers: own } = errorHead(error);
    const all = { "content-type": "application/json", [headers.requestId]: ids.requestId(), ...own };
    if (ofRoute !== undefined) ofRoute(req, res, error);
    else answerAndLinger(req, res, status, all, JSON.stringify(deps.errorToJson(error)));
  }

  function onClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
    if (refusedSockets.has(socket)) return;
    refusedSockets.add(socket);
    const refusal = errorOfParser(error.code);
    const current = pipelines.on(socket);
    const isGone = leavingCodes.has(error.code ?? "") || !socket.writable;
    if (isGone || current?.headersSent || current?.req.complete) {
      socket.destroy(error);
    } else if (current !== undefined) {
      current.shouldKeepAlive = false;
      refuse(current.req, current, refusal);
    } else {
      log.debug({ code: error.code }, "rejected malformed HTTP");
      const { status, headers: own } = errorHead(refusal);
      const all = { [headers.requestId]: ids.requestId(), "x-content-type-options": "nosniff", ...own };
      answerRaw(socket, status, all, JSON.stringify(deps.errorToJson(refusal)));
    }
  }

  const options: http.ServerOptions<typeof IncomingMessage, typeof MarkedResponse> = {
    ServerResponse: MarkedResponse,
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    connectionsCheckingInterval: Math.min(timeoutCheckMsMax, limits.headersTimeoutMs, limits.requestTimeoutMs),
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    // Node would answer a missing Host header with 400 and no body; findHeadFault checks it instead.
    requireHostHeader: false,
  };
  const server = tls === null ? http.createServer(options) : https.createServer({ ...options, ...secureContext(tls) });
  // Node would silently drop header lines above its maximum; findHeadFault counts them instead.
  server.maxHeadersCount = 0;
  server.on("request", pipelines.take);
  // "100 Continue" is sent when the body is read; findHeadFault refuses other expectations.
  server.on("checkContinue", pipelines.take);
  server.on("checkExpectation", pipelines.take);
  server.on("clientError", onClientError);
  server.on("connection", (socket: Socket) => {
    if (connectionLimit?.enter(socket) === false && !connectionLimit.keepForAnswer(socket)) {
      socket.destroy();
      return;
    }
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });

  return {
    /** Resolves with the port. Rejects when the address cannot be bound. */
    listen(host: string, port: number): Promise<number> {
      return new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen({ host, port }, () => {
          server.off("error", reject);
          server.on("error", (error) => log.error({ err: error }, "the HTTP listener failed"));
          resolve((server.address() as AddressInfo).port);
        });
      });
    },

    /** Number of open connections. */
    connections: () => sockets.size,

    /** Makes every answer from now on close its connection, and closes connections without a request immediately. */
    beginDrain(): void {
      isDraining = true;
      for (const res of pipelines.current()) if (!res.headersSent) res.shouldKeepAlive = false;
      server.closeIdleConnections();
    },

    /** Stops listening. Answers in flight have `closeGraceMs` to be written; then the connections are closed. */
    close(): Promise<void> {
      return new Promise((resolve) => {
        const timer = setTimeout(() => server.closeAllConnections(), closeGraceMs);
        server.close(() => {
          clearTimeout(timer);
          resolve();
        });
        server.closeIdleConnections();
      });
    },

    /** Applies changed timeouts of the limits, also to open connections. */
    reloadTimeouts(): void {
      server.headersTimeout = limits.headersTimeoutMs;
      server.requestTimeout = limits.requestTimeoutMs;
      server.keepAliveTimeout = limits.keepAliveTimeoutMs;
    },

    /** Makes new connections use the new certificate. Throws and keeps the old one if certificate and key do not fit. */
    reloadTls(files: TlsFiles): void {
      if (server instanceof https.Server) server.setSecureContext(secureContext(files));
    },
  };
}

function secureContext({ cert, key, clientCa }: TlsFiles): https.ServerOptions {
  return { cert, key, ...(clientCa !== null && { ca: clientCa, requestCert: true, rejectUnauthorized: true }) };
}

/** Maximum of pipelined requests that wait on one connection; a further one closes the connection. */
const waitingMax = 16;

/** The requests of one connection. */
interface Pipeline {
  /** The response that is not closed yet; null: the connection is idle. */
  current: MarkedResponse | null;
  /** Responses that wait for the current one. */
  readonly later: MarkedResponse[];
  /** Called when the current response is closed. One function per connection, so that a request allocates no closure. */
  readonly closed: () => void;
}

/**
 * Serves the pipelined requests of each connection one after the other. Node emits a pipelined request immediately, but its
 * response emits no `close` while an earlier response is open: the work would continue after the client has disconnected.
 * `closed` is called when a response was closed, whether its answer is complete or not.
 */
function createPipelines(serve: (req: IncomingMessage, res: MarkedResponse) => void, closed: () => void) {
  const pipelines = new Map<Duplex, Pipeline>();

  function open(socket: Duplex): Pipeline {
    const pipeline: Pipeline = {
      current: null,
      later: [],
      closed: () => {
        pipeline.current = null;
        closed();
        // After the last answer of a connection, further requests are not served: they may be bytes of a refused body.
        const next = socket.writable ? pipeline.later.shift() : undefined;
        if (next !== undefined) start(pipeline, next.req, next);
      },
    };
    pipelines.set(socket, pipeline);
    socket.once("close", () => pipelines.delete(socket));
    return pipeline;
  }

  function start(pipeline: Pipeline, req: IncomingMessage, res: MarkedResponse): void {
    pipeline.current = res;
    res.on("close", pipeline.closed);
    serve(req, res);
  }

  return {
    take(req: IncomingMessage, res: MarkedResponse): void {
      const pipeline = pipelines.get(req.socket) ?? open(req.socket);
      if (pipeline.current === null) start(pipeline, req, res);
      else if (pipeline.later.length < waitingMax) pipeline.later.push(res);
      else req.socket.destroy();
    },

    /** The response that is being written on a connection. */
    on(socket: Duplex): MarkedResponse | undefined {
      const current = pipelines.get(socket)?.current;
      return current?.socket === socket ? current : undefined;
    },

    /** All responses that were begun and are not closed. */
    current: () => [...pipelines.values()].flatMap(({ current }) => current ?? []),
  };
}

/** Headers that may be sent only once: proxies and servers may read duplicates of these differently. */
const onceOnly = ["host", "authorization", "x-api-key", "content-type", "content-length"];
/** These header names by length, which is different for each: nearly all other headers need no comparison of text. */
const onceOnlyByLength: readonly (string | undefined)[] = Array.from({ length: 16 }, (_, length) =>
  onceOnly.find((name) => name.length === length),
);

/**
 * Finds ambiguous or too large parts of a request's head, on the raw header lines: Node's parsed headers hide duplicates
 * (SEC-4, SEC-5). `allowedHosts`: with or without port, lower case; empty: all. Undefined: no fault.
 */
export function findHeadFault(
  req: IncomingMessage,
  { headerLinesMax, urlBytesMax }: Pick<ServiceLimits, "headerLinesMax" | "urlBytesMax">,
  allowedHosts: readonly string[],
): ServiceError | undefined {
  const lines = req.rawHeaders.length / 2;
  if (lines > headerLinesMax) {
    return tooLarge(`The request has ${lines} header lines; at most ${headerLinesMax} are allowed.`);
  }
  const url = req.url ?? "";
  // A UTF-16 code unit has at most three bytes in UTF-8, so few URLs need to be measured.
  if (url.length * 3 > urlBytesMax && Buffer.byteLength(url) > urlBytesMax) {
    return tooLarge(`The request's URL is longer than ${urlBytesMax} bytes.`);
  }
  if (!url.startsWith("/") && !(url === "*" && req.method === "OPTIONS")) {
    return bad("The request's target must be a path that begins with '/'.");
  }
  return findHeaderFault(req) ?? findHostFault(req, allowedHosts);
}

function findHeaderFault({ rawHeaders, headers }: IncomingMessage): ServiceError | undefined {
  /** One bit for the length of each header of onceOnly that was seen. */
  let seen = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    const once = onceOnlyByLength[name.length];
    if (once === undefined || (name !== once && name.toLowerCase() !== once)) {
      // Some proxies replace an underscore by a hyphen, which results in another header.
      if (name.includes("_")) return bad("Header names with an underscore are not allowed.");
      continue;
    }
    const bit = 1 << name.length;
    if ((seen & bit) !== 0) return bad(`The header '${once}' is sent twice.`);
    seen |= bit;
  }
  const { "transfer-encoding": encoding, expect } = headers;
  if (encoding !== undefined && encoding.toLowerCase() !== "chunked") {
    return bad("The Transfer-Encoding must be chunked.");
  }
  if (expect !== undefined && expect.toLowerCase() !== "100-continue") {
    return bad("The only supported value of the Expect header is 100-continue.");
  }
  return undefined;
}

function findHostFault(req: IncomingMessage, allowedHosts: readonly string[]): ServiceError | undefined {
  const given = req.headers.host;
  if (given === undefined) return req.httpVersion === "1.0" ? undefined : bad("The Host header is missing.");
  if (allowedHosts.length === 0) return undefined;
  const host = given.toLowerCase();
  const isAllowed = allowedHosts.includes(host) || allowedHosts.includes(host.replace(/:\d*$/, ""));
  return isAllowed ? undefined : bad("The Host header names a host that is not served here.");
}

function bad(message: string): ServiceError {
  return new ServiceError("invalid_value", message);
}

function tooLarge(message: string): ServiceError {
  return new ServiceError("request_headers_too_large", message);
}
