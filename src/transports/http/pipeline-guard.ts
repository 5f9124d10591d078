import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";

/** Requests that a client may pipeline on one connection; beyond it the connection is closed. */
const waitingMax = 16;

/** The requests of one connection. */
interface Pipeline<R extends ServerResponse> {
  /** The response that is not closed yet; null: the connection is idle. */
  current: R | null;
  /** Responses that wait for the current one. */
  readonly later: R[];
  /** The current response was closed. One function for all of them: a request costs no closure. */
  readonly closed: () => void;
}

export interface PipelineGuardOptions<R extends ServerResponse> {
  readonly serve: (req: IncomingMessage, res: R) => void;
  /** A response was closed, its answer being complete or not. */
  readonly closed: () => void;
}

/**
 * Serves the pipelined requests of each connection one after the other. Node emits a pipelined request immediately, but
 * its response emits no `close` while another one is before it: its work would go on after the client has left.
 */
export class PipelineGuard<R extends ServerResponse> {
  readonly #options: PipelineGuardOptions<R>;
  readonly #pipelines = new Map<Duplex, Pipeline<R>>();

  constructor(options: PipelineGuardOptions<R>) {
    this.#options = options;
  }

  take(req: IncomingMessage, res: R): void {
    const pipeline = this.#pipelines.get(req.socket) ?? this.#open(req.socket);
    if (pipeline.current === null) this.#start(pipeline, req, res);
    else if (pipeline.later.length < waitingMax) pipeline.later.push(res);
    else req.socket.destroy();
  }

  /** The response that is being written on a connection. */
  on(socket: Duplex): R | undefined {
    const current = this.#pipelines.get(socket)?.current;
    return current?.socket === socket ? current : undefined;
  }

  /** All responses that were begun and are not closed. */
  *current(): IterableIterator<R> {
    for (const { current } of this.#pipelines.values()) if (current !== null) yield current;
  }

  #open(socket: Duplex): Pipeline<R> {
    const pipeline: Pipeline<R> = {
      current: null,
      later: [],
      closed: () => {
        pipeline.current = null;
        this.#options.closed();
        // After the last answer of a connection, what follows may be part of a refused request.
        const next = socket.writable ? pipeline.later.shift() : undefined;
        if (next !== undefined) this.#start(pipeline, next.req, next);
      },
    };
    this.#pipelines.set(socket, pipeline);
    socket.once("close", () => this.#pipelines.delete(socket));
    return pipeline;
  }

  #start(pipeline: Pipeline<R>, req: IncomingMessage, res: R): void {
    pipeline.current = res;
    res.on("close", pipeline.closed);
    this.#options.serve(req, res);
  }
}
