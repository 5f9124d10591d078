import { type Agent, Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { Duplex } from "node:stream";

/** Many servers close idle connections after 5 s: with less, few requests meet a closing socket. */
const idleMs = 4_000;

/** The in-flight maximum of an endpoint, so that a steady stream of deliveries opens no new connections. */
const idlePerHostMax = 64;

/** Timeout of one address before the next is tried. Node's default of 250 ms is too short for distant receivers. */
const addressTimeoutMs = 1_000;

/**
 * Connection pools of receivers. The caller's bound on attempts bounds the sockets, so nothing waits for one. Proxy
 * variables of the environment are ignored.
 */
export class ReceiverAgents {
  readonly #kept: { readonly http: HttpAgent; readonly https: HttpsAgent };
  readonly #fresh: { readonly http: HttpAgent; readonly https: HttpsAgent };

  /** `ca`: PEM of the authorities to trust in place of Node's own; null: those. */
  constructor(ca: string | null) {
    const dialling = { autoSelectFamily: true, autoSelectFamilyAttemptTimeout: addressTimeoutMs };
    // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED can turn verification off.
    const tls = { rejectUnauthorized: true, minVersion: "TLSv1.2", ...(ca === null ? {} : { ca }) } as const;
    const keeping = { ...dialling, keepAlive: true, timeout: idleMs, maxFreeSockets: idlePerHostMax } as const;
    this.#kept = { http: new HttpAgent(keeping), https: new HttpsAgent({ ...keeping, ...tls }) };
    boundIdleSockets(this.#kept.http);
    boundIdleSockets(this.#kept.https);
    this.#fresh = { http: new HttpAgent(dialling), https: new HttpsAgent({ ...dialling, ...tls }) };
  }

  /** `isFresh`: it gives a new socket, which is used once. */
  of(isSecure: boolean, isFresh: boolean): HttpAgent {
    const { http, https } = isFresh ? this.#fresh : this.#kept;
    return isSecure ? https : http;
  }

  close(): void {
    for (const { http, https } of [this.#kept, this.#fresh]) {
      http.destroy();
      https.destroy();
    }
  }
}

/** Idle sockets of one agent, over all receivers. */
const idleMax = 256;

/** Maximum age of a reused socket, so that a receiver that moved to another address is found. */
const reusedForMs = 60_000;

/** Node uses the return value, which its types declare as void. */
type MayKeep = (socket: Duplex) => boolean;

/** Bounds the number and age of idle sockets, and closes those that receive data without a request. */
export function boundIdleSockets(agent: Agent): void {
  const firstIdleAtMs = new WeakMap<Duplex, number>();
  const mayKeep = agent.keepSocketAlive.bind(agent) as MayKeep;
  const reuse = agent.reuseSocket.bind(agent);

  agent.keepSocketAlive = (socket) => {
    const sinceMs = firstIdleAtMs.get(socket) ?? performance.now();
    firstIdleAtMs.set(socket, sinceMs);
    if (performance.now() - sinceMs >= reusedForMs || idleCount(agent) >= idleMax || !mayKeep(socket)) return false;
    socket.on("data", closeTalker);
    return true;
  };

  agent.reuseSocket = (socket, request) => {
    socket.off("data", closeTalker);
    reuse(socket, request);
  };
}

function idleCount({ freeSockets }: Agent): number {
  return Object.values(freeSockets).reduce((sum, sockets) => sum + (sockets?.length ?? 0), 0);
}

/** Node reads from idle sockets without a bound, and its idle timeout never fires while data arrives. */
function closeTalker(this: Duplex): void {
  this.destroy();
}
