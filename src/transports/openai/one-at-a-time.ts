import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

type Serve = (req: IncomingMessage, res: ServerResponse) => void;

/** Requests that a client may send ahead on one connection before it is taken for an attack. */
const waitingMax = 16;

/**
 * Serves the requests of each connection one after the other. Node hands out a request that was sent ahead at once, but
 * its response says nothing when the client leaves as long as another one is before it: what it started would run on.
 */
export function oneAtATime(serve: Serve): Serve {
  /** By connection that is serving a request: the responses whose turn has not come. */
  const waiting = new WeakMap<Socket, ServerResponse[]>();

  function start(socket: Socket, req: IncomingMessage, res: ServerResponse, later: ServerResponse[]): void {
    res.once("close", () => {
      // After the last answer of a connection, what follows may be a part of the request that was refused.
      const next = socket.writable ? later.shift() : undefined;
      if (next === undefined) waiting.delete(socket);
      else start(socket, next.req, next, later);
    });
    serve(req, res);
  }

  return (req, res) => {
    const { socket } = req;
    const later = waiting.get(socket);
    if (later === undefined) {
      const queue: ServerResponse[] = [];
      waiting.set(socket, queue);
      start(socket, req, res, queue);
    } else if (later.length < waitingMax) later.push(res);
    else socket.destroy();
  };
}
