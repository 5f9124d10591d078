import type { Socket } from "node:net";
import { Client, type Dispatcher, Pool } from "undici";

/** A request that is given the connection on which it runs. */
export interface PausableRequest extends Dispatcher.DispatchOptions {
  readonly onConnection: (connection: PausableConnection) => void;
}

/**
 * Pauses reading at the socket that undici uses. `pause` of undici's own controller would end the process when a server closes
 * a paused connection that is not kept alive: undici's parser asserts that it is not paused then.
 */
export class PausableConnection {
  #socket: Socket | null = null;

  /** The current socket; a client opens another one after it closed. */
  set socket(socket: Socket) {
    this.#socket = socket;
  }

  /** Bytes that the socket has received; above 0 for a connection that has served a request. */
  get bytesRead(): number {
    return this.#socket?.bytesRead ?? 0;
  }

  /** Hides new data from undici: the socket's buffer fills, then the server has to wait. Data already read is delivered. */
  pause(): void {
    if (this.#socket !== null) this.#socket.read = () => null;
  }

  resume(): void {
    const socket = this.#socket;
    if (socket === null || !Object.hasOwn(socket, "read")) return;
    // Removes the override, so that `read` is the method of the class again.
    Reflect.deleteProperty(socket, "read");
    // In the next tick, because undici's parser must not be entered from one of its callbacks.
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

  /** The callback comes with the request, because the pool has wrapped the handler. */
  override dispatch(options: PausableRequest, handler: Dispatcher.DispatchHandler): boolean {
    options.onConnection(this.#connection);
    return super.dispatch(options, handler);
  }
}

/** Creates a pool of connections for requests of the type `PausableRequest`. */
export function createPausablePool(origin: string, options: Pool.Options): Pool {
  return new Pool(origin, {
    ...options,
    factory: (url, clientOptions) => new PausableClient(url, clientOptions as Client.Options),
  });
}
