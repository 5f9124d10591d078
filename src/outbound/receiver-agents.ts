import { type Agent, Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import type { Duplex } from "node:stream";

/** Below the five seconds after which many servers close, so that few requests meet a closing socket. */
const idleMs = 4_000;

/** As many as an endpoint may have in flight: a steady stream of deliveries opens no new ones. */
const idlePerHostMax = 64;

/** Before the next address of a name is tried. Node's own quarter of a second gives up on receivers far away. */
const addressTimeoutMs = 1_000;

/**
 * Where sockets come from. How many there are at once is bounded by the attempts under way, which the caller counts;
 * nothing waits for a socket. No proxy is used, whatever the environment says.
 */
export class ReceiverAgents {
  readonly #kept: { readonly http: HttpAgent; readonly https: HttpsAgent };
  readonly #fresh: { readonly http: HttpAgent; readonly https: HttpsAgent };

  /** `ca`: PEM of the authorities to trust in place of Node's own; null: those. */
  constructor(ca: string | null) {
    const dialling = { autoSelectFamily: true, autoSelectFamilyAttemptTimeout: addressTimeoutMs };
    // Said outright, because an environment variable of Node's can turn verification off where it is not.
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

/** Sockets of one agent that may wait for their next request, over all receivers. */
const idleMax = 256;

/** After so long a socket is not used again, so that a receiver that moves to another address is found there. */
const reusedForMs = 60_000;

/** Node asks the method for an answer that its types declare as void. */
type MayKeep = (socket: Duplex) => boolean;

/** Bounds what an agent that keeps sockets keeps: how many, how long, and none that speaks without being asked. */
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

/** Node reads on from an idle socket without an end, and to its timeout a receiver that goes on sending is not idle. */
function closeTalker(this: Duplex): void {
  this.destroy();
}
