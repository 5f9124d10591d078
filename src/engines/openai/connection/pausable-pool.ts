import type { Socket } from "node:net";
import { Client, type Dispatcher, Pool } from "undici";

/** A request that receives the connection on which it runs. */
export interface PausableRequest extends Dispatcher.DispatchOptions {
  readonly onConnection: (connection: PausableConnection) => void;
}

/**
 * Stops reading from a socket below undici. `pause` of undici's own controller would end the process when a server closes
 * a paused connection that is not kept alive: its parser asserts that it is not paused then.
 */
export class PausableConnection {
  #socket: Socket | null = null;

  /** The present socket; a client opens another one after it closed. */
  set socket(socket: Socket) {
    this.#socket = socket;
  }

  /** Bytes that came before; above 0 for a connection that has served a request. */
  get bytesRead(): number {
    return this.#socket?.bytesRead ?? 0;
  }

  /** undici finds nothing to read: the socket's buffer fills, then the server has to wait. What was read is still delivered. */
  pause(): void {
    if (this.#socket !== null) this.#socket.read = () => null;
  }

  resume(): void {
    const socket = this.#socket;
    if (socket === null || !Object.hasOwn(socket, "read")) return;
    // The method of the class again.
    Reflect.deleteProperty(socket, "read");
    // Not at once: undici's parser must not be entered from one of its callbacks.
    process.nextTick(() => {
      if (!socket.destroyed) socket.emit("readable");
    });
  }
}

class PausableClient extends Client {
  readonly #connection: PausableConnection;

  constructor(origin: URL, options: Client.Options) {
    const connection = new PausableConnection();
    const { connect } = options;
    if (typeof connect !== "function") throw new TypeError("a pool passes its connector to its clients");
    super(origin, {
      ...options,
      connect: (target, callback) =>
        connect(target, (...result) => {
          if (result[1] !== null) connection.socket = result[1];
          callback(...result);
        }),
    });
    this.#connection = connection;
  }

  /** The pool has wrapped the handler, so the request itself brings its callback. */
  override dispatch(options: PausableRequest, handler: Dispatcher.DispatchHandler): boolean {
    options.onConnection(this.#connection);
    return super.dispatch(options, handler);
  }
}

/** A pool for requests that are `PausableRequest`s. */
export function createPausablePool(origin: string, options: Pool.Options): Pool {
  return new Pool(origin, {
    ...options,
    factory: (url, clientOptions) => new PausableClient(url, clientOptions as Client.Options),
  });
}
