import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { headers } from "../../contract/headers.js";
import type { ServiceLimits } from "../../contract/limits.js";
import type { IdSource, Logger } from "../../domain/call/ports.js";
import type { ServiceError } from "../../domain/call/service-error.js";
import { answerAndLinger } from "../../lib/lingering-answer.js";
import { pathOf } from "../../lib/request-path.js";
import type { TlsFiles } from "../../lib/tls-files.js";
import { createCors } from "./cors.js";
import { errorResponse } from "./error-response.js";
import { MarkedResponse } from "./marked-response.js";
import { OneAtATime } from "./one-at-a-time.js";
import { answerRaw, errorOfParser } from "./raw-answer.js";
import { findHeadFault } from "./request-gate.js";

export interface HttpListenerDeps {
  readonly limits: ServiceLimits;
  readonly corsOrigins: readonly string[];
  readonly allowedHosts: readonly string[];
  /** Null: plain HTTP. */
  readonly tls: TlsFiles | null;
  readonly ids: IdSource;
  readonly log: Logger;
  /** Serves a request whose head is sound. */
  readonly handle: (req: IncomingMessage, res: ServerResponse) => void;
  /** Whether `handle` serves a path; what it does not is a 404, whatever else is wrong with the head. Default: all. */
  readonly serves?: (path: string) => boolean;
}

export interface HttpListener {
  /** Resolves with the port. Rejects when the address cannot be had. */
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

/** Two years, as browsers' preload lists ask for. */
const strictTransportSecurity = "max-age=63072000";
/** How often the head and body timeouts are looked at, at most (SEC-6). */
const timeoutCheckMsMax = 1_000;
const closeGraceMs = 1_000;
/** The connection was reset, or closed in the middle of a request: nobody waits for an answer. */
const leavingCodes: ReadonlySet<string> = new Set(["ECONNRESET", "HPE_INVALID_EOF_STATE"]);

/**
 * The one HTTP/1.1 listener for REST, Connect and gRPC-Web: limits of a request's head, cross-origin requests, what the
 * parser refuses, and draining. What a path means is for `handle`.
 */
export function createHttpListener(deps: HttpListenerDeps): HttpListener {
  const { limits, ids, log, tls, serves = () => true } = deps;
  const cors = createCors(deps.corsOrigins);
  const hasCors = deps.corsOrigins.length > 0;
  const gate = { limits, allowedHosts: deps.allowedHosts.map((host) => host.toLowerCase()) };
  const security = ["x-content-type-options", "nosniff"];
  if (tls !== null) security.push("strict-transport-security", strictTransportSecurity);
  const sockets = new Set<Socket>();
  /** Connections that get no further answer: the parser's complaints about what still comes in are of no interest. */
  const refusedSockets = new WeakSet<Duplex>();
  let isDraining = false;
  const turns = new OneAtATime<MarkedResponse>({
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
      // What is no path cannot be unknown either.
      if (serves(path) || !path.startsWith("/")) {
        refuse(req, res, fault);
        return;
      }
    }
    const preflight = cors.preflight(req);
    if (preflight === null) {
      deps.handle(req, res);
      return;
    }
    res.marks = [...security, ...preflight];
    res.writeHead(204, { [headers.requestId]: ids.requestId() }).end();
  }

  function refuse(req: IncomingMessage, res: ServerResponse, error: ServiceError): void {
    const { status, headers: extra, body } = errorResponse(error);
    const requestId = { [headers.requestId]: ids.requestId() };
    answerAndLinger(req, res, status, { "content-type": "application/json", ...requestId, ...extra }, body);
  }

  function onClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
    if (refusedSockets.has(socket)) return;
    refusedSockets.add(socket);
    const refusal = errorOfParser(error.code);
    const current = turns.on(socket);
    const isGone = leavingCodes.has(error.code ?? "") || !socket.writable;
    if (isGone || current?.headersSent || current?.req.complete) {
      socket.destroy(error);
    } else if (current !== undefined) {
      current.shouldKeepAlive = false;
      refuse(current.req, current, refusal);
    } else {
      log.debug({ code: error.code }, "refused what is no request");
      answerRaw(socket, refusal, { [headers.requestId]: ids.requestId(), "x-content-type-options": "nosniff" });
    }
  }

  const options: http.ServerOptions<typeof IncomingMessage, typeof MarkedResponse> = {
    ServerResponse: MarkedResponse,
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: limits.headersTimeoutMs,
    requestTimeout: limits.requestTimeoutMs,
    connectionsCheckingInterval: Math.min(timeoutCheckMsMax, limits.headersTimeoutMs, limits.requestTimeoutMs),
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    // Node would answer 400 without a body; the gate looks at it.
    requireHostHeader: false,
  };
  const onRequest = (req: IncomingMessage, res: MarkedResponse): void => turns.take(req, res);
  const server = tls === null ? http.createServer(options) : https.createServer({ ...options, ...secureContext(tls) });
  // Node would drop the lines above its maximum silently; the gate counts them.
  server.maxHeadersCount = 0;
  server.on("request", onRequest);
  // The door says "continue" once it is sure that it wants the body; the gate refuses other expectations.
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
      for (const res of turns.current()) if (!res.headersSent) res.shouldKeepAlive = false;
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
