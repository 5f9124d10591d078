import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { headers } from "../../contract/headers.js";
import type { ServiceLimits } from "../../contract/limits.js";
import type { IdSource, Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { TlsFiles } from "../../lib/network.js";
import { answerAndLinger, answerRaw, errorHead, MarkedResponse } from "./answer.js";
import type { ApiFamily } from "./call.js";
import { PipelineGuard } from "./pipeline-guard.js";
import { findHeadFault } from "./request-checks.js";
import { createCors, pathOf, type RouteTable } from "./routes.js";

export interface HttpListenerDeps {
  readonly limits: ServiceLimits;
  readonly corsOrigins: readonly string[];
  readonly allowedHosts: readonly string[];
  /** Null: plain HTTP. */
  readonly tls: TlsFiles | null;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly routes: RouteTable;
  /** How the listener itself writes an error, before a route is known. */
  readonly errorToJson: ApiFamily["errorToJson"];
}

export interface HttpListener {
  /** Resolves with the port. Rejects when the address cannot be bound. */
  listen(host: string, port: number): Promise<number>;
  /** Open connections. */
  connections(): number;
  /** From now on every answer closes its connection; connections without a request are closed at once. */
  beginDrain(): void;
  /** Stops listening, lets answers in flight be written for a moment, then closes what is left. */
  close(): Promise<void>;
  /** New connections get the new certificate. Throws when the files do not fit; the old ones then stay. */
  reloadTls(tls: TlsFiles): void;
}

/** Two years, as the preload lists of browsers require. */
const strictTransportSecurity = "max-age=63072000";
/** Interval at which the head and body timeouts are checked, at most (SEC-6). */
const timeoutCheckMsMax = 1_000;
const closeGraceMs = 1_000;
/** Errors after which no answer can be sent: the connection was reset, or closed in the middle of a request. */
const leavingCodes: ReadonlySet<string> = new Set(["ECONNRESET", "HPE_INVALID_EOF_STATE"]);

/**
 * The HTTP/1.1 listener: bounds of a request's head, cross-origin requests, malformed requests, TLS and draining. Every
 * path is served by the route table.
 */
export function createHttpListener(deps: HttpListenerDeps): HttpListener {
  const { limits, ids, log, tls, routes } = deps;
  const cors = createCors(deps.corsOrigins);
  const hasCors = deps.corsOrigins.length > 0;
  const gate = { limits, allowedHosts: deps.allowedHosts.map((host) => host.toLowerCase()) };
  const security = ["x-content-type-options", "nosniff"];
  if (tls !== null) security.push("strict-transport-security", strictTransportSecurity);
  const sockets = new Set<Socket>();
  /** Connections that get no further answer: later parser errors on them are ignored. */
  const refusedSockets = new WeakSet<Duplex>();
  let isDraining = false;
  const pipelines = new PipelineGuard<MarkedResponse>({
    serve,
    closed() {
      if (isDraining) setImmediate(() => server.closeIdleConnections());
    },
  });

  function serve(req: IncomingMessage, res: MarkedResponse): void {
    res.marks = hasCors ? [...security, ...cors.marks(req)] : security;
    if (isDraining) res.shouldKeepAlive = false;
    const fault = findHeadFault(req, gate);
    if (fault !== undefined) {
      res.shouldKeepAlive = false;
      refusedSockets.add(req.socket);
      const path = pathOf(req);
      // An unknown path is a 404 whatever else is wrong with the head; a target that is no path is not one.
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
    const { status, headers: own } = errorHead(error);
    const all = { "content-type": "application/json", [headers.requestId]: ids.requestId(), ...own };
    answerAndLinger(req, res, status, all, JSON.stringify(deps.errorToJson(error)));
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
    // Node would answer 400 without a body; findHeadFault checks it.
    requireHostHeader: false,
  };
  const onRequest = (req: IncomingMessage, res: MarkedResponse): void => pipelines.take(req, res);
  const server = tls === null ? http.createServer(options) : https.createServer({ ...options, ...secureContext(tls) });
  // Node would drop the lines above its maximum silently; findHeadFault counts them.
  server.maxHeadersCount = 0;
  server.on("request", onRequest);
  // "100 Continue" is sent when the body is read; findHeadFault refuses other expectations.
  server.on("checkContinue", onRequest);
  server.on("checkExpectation", onRequest);
  server.on("clientError", onClientError);
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
  });

  return {
    listen(host, port) {
      return new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen({ host, port }, () => {
          server.off("error", reject);
          server.on("error", (error) => log.error({ err: error }, "the HTTP listener failed"));
          resolve((server.address() as AddressInfo).port);
        });
      });
    },

    connections: () => sockets.size,

    beginDrain() {
      isDraining = true;
      for (const res of pipelines.current()) if (!res.headersSent) res.shouldKeepAlive = false;
      server.closeIdleConnections();
    },

    close() {
      return new Promise((resolve) => {
        const timer = setTimeout(() => server.closeAllConnections(), closeGraceMs);
        server.close(() => {
          clearTimeout(timer);
          resolve();
        });
        server.closeIdleConnections();
      });
    },

    reloadTls(files) {
      if (server instanceof https.Server) server.setSecureContext(secureContext(files));
    },
  };
}

function secureContext({ cert, key, clientCa }: TlsFiles): https.ServerOptions {
  return { cert, key, ...(clientCa !== null && { ca: clientCa, requestCert: true, rejectUnauthorized: true }) };
}

/** The error for what Node's HTTP parser or its timers found. */
function errorOfParser(code: string | undefined): ServiceError {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new ServiceError("request_headers_too_large", "The request's headers are too large.");
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new ServiceError("request_timeout", "The request arrived too slowly.");
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return new ServiceError("request_too_large", "The chunk extensions of the body are too large.");
    default:
      return new ServiceError("invalid_value", "The request is not valid HTTP/1.1.");
  }
}
