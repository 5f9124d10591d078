import { once } from "node:events";
import { createServer as createHttpServer, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http";
import { createServer as createHttpsServer } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { promisify } from "node:util";
import { eventually } from "../eventually.js";
import type { ServerIdentity } from "./authority.js";
import { type Trick, tricks } from "./tricks.js";

/** A request as the receiver got it. */
export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The raw bytes of the body. */
  readonly rawBody: Buffer;
  /** Wall-clock time at which the body was complete. */
  readonly arrivedAtMs: number;
  /** Number of the request's connection, 1 for the first. */
  readonly connection: number;
}

export interface PlainAnswer {
  readonly status: number;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Uint8Array;
  readonly afterMs?: number;
}

/** A response, or the name of a behaviour without a response. */
export type Answer = PlainAnswer | Trick;

export interface ReceiverOptions {
  /** One response for all requests, or a function of the request and the number of earlier ones. Default: 200, no body. */
  readonly answer?: Answer | ((request: ReceivedRequest, before: number) => Answer);
  /** TLS options; plain HTTP if absent. */
  readonly tls?: ServerIdentity;
  /** Address to listen on, 127.0.0.1 by default. */
  readonly host?: string;
  /** Port, a free one by default. */
  readonly port?: number;
  /** Idle time after a response before the connection is closed; 60 s by default. */
  readonly keepAliveMs?: number;
}

/** A receiver of webhooks on this machine, which records requests and sends configured responses. */
export interface Receiver {
  /** Base URL with a trailing slash. The host is the address, also with TLS. */
  readonly url: string;
  readonly port: number;
  /** Every request whose body was complete, in order. */
  readonly requests: readonly ReceivedRequest[];
  /** Number of connections ever made to it. */
  readonly connections: number;
  /** Number of open connections. */
  readonly open: number;
  /** Changes the response from the next request on. */
  answerWith(answer: NonNullable<ReceiverOptions["answer"]>): void;
  /** Resolves when the total number of requests reaches the given one. */
  until(requests: number, patienceMs?: number): Promise<void>;
  /** Closes all connections and continues to listen. */
  dropConnections(): void;
  close(): Promise<void>;
}

/**
 * The system may give a port of a closed receiver again. Endpoints that earlier tests created would then have the URL
 * of a new receiver, and their deliveries would reach it.
 */
const usedPorts = new Set<number>();

export async function startReceiver(options: ReceiverOptions = {}): Promise<Receiver> {
  let answer = options.answer ?? { status: 200 };
  let connections = 0;
  const requests: ReceivedRequest[] = [];
  const sockets = new Map<Socket, number>();
  const server = options.tls ? createHttpsServer(options.tls) : createHttpServer();
  server.keepAliveTimeout = options.keepAliveMs ?? 60_000;

  server.on(options.tls ? "secureConnection" : "connection", (socket: Socket) => {
    connections += 1;
    sockets.set(socket, connections);
    // Many tests disconnect the sender during a request.
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
  });
  server.on("request", (req, res) => {
    const pieces: Buffer[] = [];
    req.on("data", (piece: Buffer) => pieces.push(piece));
    req.on("end", () => {
      const { method = "", url = "", headers, socket } = req;
      const request: ReceivedRequest = {
        method,
        path: url,
        headers,
        rawBody: Buffer.concat(pieces),
        arrivedAtMs: Date.now(),
        connection: sockets.get(socket) ?? 0,
      };
      requests.push(request);
      const chosen = typeof answer === "function" ? answer(request, requests.length - 1) : answer;
      if (typeof chosen === "string") return tricks[chosen](socket);
      const reply = () => res.writeHead(chosen.status, chosen.headers).end(chosen.body ?? "");
      if (chosen.afterMs === undefined) reply();
      else setTimeout(reply, chosen.afterMs);
    });
  });

  const { host = "127.0.0.1", port: wanted = 0 } = options;
  let port: number;
  do {
    if (server.listening) await promisify(server.close.bind(server))();
    server.listen(wanted, host);
    await once(server, "listening");
    port = (server.address() as AddressInfo).port;
  } while (wanted === 0 && usedPorts.has(port));
  usedPorts.add(port);
  const shownHost = host.includes(":") ? `[${host}]` : host;
  return {
    url: `${options.tls ? "https" : "http"}://${shownHost}:${port}/`,
    port,
    requests,
    get connections() {
      return connections;
    },
    get open() {
      return sockets.size;
    },
    answerWith: (next) => {
      answer = next;
    },
    until: (count, patienceMs) =>
      eventually(() => requests.length >= count, `${count} requests at the receiver`, patienceMs),
    dropConnections: () => {
      for (const socket of sockets.keys()) socket.destroy();
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      for (const socket of sockets.keys()) socket.destroy();
      await closed;
    },
  };
}
