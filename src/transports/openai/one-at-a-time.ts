import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** Requests that a client may send ahead on one connection before it is taken for an attack. */
const waitingMax = 16;

/** One connection from its first request to its end. */
interface Turn<R extends ServerResponse> {
  /** The response that is not closed yet; null: the connection is idle. */
  current: R | null;
  /** Responses whose turn has not come. */
  readonly later: R[];
  /** The current response was closed. One function for all of them: a request costs no closure. */
  readonly closed: () => void;
}

export interface OneAtATimeOptions<R extends ServerResponse> {
  readonly serve: (req: IncomingMessage, res: R) => void;
  /** A response was closed, its answer being complete or not. */
  readonly closed: () => void;
}

/**
 * Serves the requests of each connection one after the other. Node hands out a request that was sent ahead at once, but
 * its response says nothing when the client leaves as long as another one is before it: what it started would run on.
 */
export class OneAtATime<R extends ServerResponse> {
  readonly #options: OneAtATimeOptions<R>;
  readonly #turns = new Map<Duplex, Turn<R>>();

  constructor(options: OneAtATimeOptions<R>) {
    this.#options = options;
  }

  take(req: IncomingMessage, res: R): void {
    const turn = this.#turns.get(req.socket) ?? this.#open(req.socket);
    if (turn.current === null) this.#start(turn, req, res);
    else if (turn.later.length < waitingMax) turn.later.push(res);
    else req.socket.destroy();
  }

  /** The response that is being written on a connection. */
  on(socket: Duplex): R | undefined {
    const current = this.#turns.get(socket)?.current;
    return current?.socket === socket ? current : undefined;
  }

  /** All responses that were begun and are not closed. */
  *current(): IterableIterator<R> {
    for (const { current } of this.#turns.values()) if (current !== null) yield current;
  }

  #open(socket: Duplex): Turn<R> {
    const turn: Turn<R> = {
      current: null,
      later: [],
      closed: () => {
        turn.current = null;
        this.#options.closed();
        // After the last answer of a connection, what follows may be a part of the request that was refused.
        const next = socket.writable ? turn.later.shift() : undefined;
        if (next !== undefined) this.#start(turn, next.req, next);
      },
    };
    this.#turns.set(socket, turn);
    socket.once("close", () => this.#turns.delete(socket));
    return turn;
  }

  #start(turn: Turn<R>, req: IncomingMessage, res: R): void {
    turn.current = res;
    res.on("close", turn.closed);
    this.#options.serve(req, res);
  }
}
