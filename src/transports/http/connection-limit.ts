import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Clock, Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { pathOf } from "./routes.js";

/** Maximum of connections beyond the limit that stay open to answer their request with 503. */
const refusedMax = 64;
const logEveryMs = 60_000;
const healthPaths: ReadonlySet<string> = new Set(["/health", "/healthz", "/livez", "/ready", "/readyz"]);

interface ConnectionLimitDeps {
  /** Maximum of served connections of all listeners together. */
  readonly max: number;
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Logger;
}

/**
 * Bounds the connections of all listeners below the number of file descriptors, so that some are left for health checks,
 * the store, upstreams and deliveries (E-26). On connections beyond the limit the HTTP listener still answers health
 * checks, and all other requests with 503.
 */
export class ConnectionLimit {
  /** Number of open connections beyond the limit. A field, because every request reads it. */
  refusedOpen = 0;
  readonly #deps: ConnectionLimitDeps;
  /** Remote addresses and ports of the connections beyond the limit. With TLS, `req.socket` is not the accepted socket. */
  readonly #refused = new Set<string>();
  #open = 0;
  #loggedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: ConnectionLimitDeps) {
    this.#deps = deps;
  }

  /** Counts a new connection until it is closed. False: it is beyond the limit, and the listener must not serve it. */
  enter(socket: Socket): boolean {
    if (this.#open >= this.#deps.max) {
      this.#logOnce();
      return false;
    }
    this.#open += 1;
    socket.once("close", () => {
      this.#open -= 1;
    });
    return true;
  }

  /** Keeps a connection beyond the limit open for one answer. False: too many of them are open, close it. */
  keepForAnswer(socket: Socket): boolean {
    if (this.refusedOpen >= refusedMax) return false;
    const peer = peerOf(socket);
    this.#refused.add(peer);
    this.refusedOpen += 1;
    socket.once("close", () => {
      this.#refused.delete(peer);
      this.refusedOpen -= 1;
    });
    return true;
  }

  /**
   * The error of a request on a connection beyond the limit, which is closed after its answer. Undefined for a health
   * check, and for a connection within the limit.
   */
  faultOf(req: IncomingMessage, res: ServerResponse): ServiceError | undefined {
    if (!this.#refused.has(peerOf(req.socket))) return undefined;
    res.shouldKeepAlive = false;
    if (healthPaths.has(pathOf(req))) return undefined;
    const why = `The service has the maximum of ${this.#deps.max} connections open.`;
    return new ServiceError("server_is_overloaded", why, { retryAfterMs: 1_000, shouldRetry: true });
  }

  #logOnce(): void {
    const { max, clock, log } = this.#deps;
    const nowMs = clock.monotonic();
    if (nowMs - this.#loggedAtMs < logEveryMs) return;
    this.#loggedAtMs = nowMs;
    log.warn(
      { connections: max },
      "the limit of connections is reached, new ones are rejected: raise the limit of open files (ulimit -n 65536, or LimitNOFILE= with systemd)",
    );
  }
}

function peerOf({ remoteAddress = "", remotePort = 0 }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
