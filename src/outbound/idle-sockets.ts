import type { Agent } from "node:http";
import type { Duplex } from "node:stream";

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
