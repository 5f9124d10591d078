import type { Socket } from "node:net";
import { buildConnector, Client, type Dispatcher } from "undici";
import type { Clock } from "../../../domain/call/ports.js";

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
  /** On the clock of the pool; of the last connection. */
  connectedAtMs = 0;
  isConnected = false;
  isIdle = false;
  readonly #connection: PausableConnection;

  constructor(origin: string, options: Client.Options, connect: buildConnector.connector) {
    const connection = new PausableConnection();
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

  send(request: PausableRequest, handler: Dispatcher.DispatchHandler): boolean {
    request.onConnection(this.#connection);
    return super.dispatch(request, handler);
  }

  hasRequests(): boolean {
    return this.stats.size > 0;
  }
}

export interface ConnectionPoolOptions {
  readonly clock: Pick<Clock, "monotonic">;
  /** An older connection serves no further request: its server's name may have another address by now. */
  readonly ageMaxMs: number;
  readonly connect: buildConnector.BuildOptions;
  readonly client: Omit<Client.Options, "connect" | "pipelining">;
}

/**
 * The connections to one server, without a maximum; each serves one request at a time. A request takes the idle connection that
 * was used last, in the same time however many there are. undici's own pool searches all busy ones, twice for each request,
 * and keeps an object for each connection that ever was.
 */
export class ConnectionPool {
  readonly #origin: string;
  readonly #options: ConnectionPoolOptions;
  readonly #connect: buildConnector.connector;
  readonly #clients = new Set<PausableClient>();
  /** Connected and without a request; the one used last is the last. */
  readonly #idle: PausableClient[] = [];
  #isDestroyed = false;

  constructor(origin: string, options: ConnectionPoolOptions) {
    this.#origin = origin;
    this.#options = options;
    // One for all connections, because it keeps the TLS sessions that the next ones resume.
    this.#connect = buildConnector(options.connect);
  }

  /** Number of connections, and of attempts to connect. */
  get size(): number {
    return this.#clients.size;
  }

  /** Sends a request. Failures are passed to the handler. Throws after `destroy`. */
  dispatch(request: PausableRequest, handler: Dispatcher.DispatchHandler): void {
    if (this.#isDestroyed) throw new Error("the connections are closed");
    const client = this.#take();
    const isFree = client.send(request, handler);
    // A request that undici rejects at once leaves no event.
    if (isFree || !client.hasRequests()) this.#release(client);
  }

  /** Closes all connections; running requests fail. */
  async destroy(): Promise<void> {
    const clients = [...this.#clients];
    this.#isDestroyed = true;
    this.#clients.clear();
    await Promise.all(clients.map((client) => client.destroy()));
  }

  #take(): PausableClient {
    const { clock, ageMaxMs } = this.#options;
    for (let client = this.#idle.pop(); client !== undefined; client = this.#idle.pop()) {
      client.isIdle = false;
      if (clock.monotonic() - client.connectedAtMs < ageMaxMs) return client;
      this.#clients.delete(client);
      void client.destroy();
    }
    return this.#open();
  }

  #open(): PausableClient {
    const { clock, client: options } = this.#options;
    const client = new PausableClient(this.#origin, { ...options, pipelining: 1 }, this.#connect);
    this.#clients.add(client);
    client.on("connect", () => {
      client.connectedAtMs = clock.monotonic();
      client.isConnected = true;
    });
    // undici's event for a client that may be given the next request.
    client.on("drain", () => this.#release(client));
    client.on("disconnect", () => {
      client.isConnected = false;
      if (client.isIdle) this.#forget(client);
    });
    client.on("connectionError", () => this.#forget(client));
    return client;
  }

  /** Called when a client has no request. One without a connection is not kept. */
  #release(client: PausableClient): void {
    if (client.isIdle || !this.#clients.has(client)) return;
    if (!client.isConnected) {
      this.#forget(client);
      return;
    }
    client.isIdle = true;
    this.#idle.push(client);
  }

  #forget(client: PausableClient): void {
    this.#clients.delete(client);
    const place = this.#idle.indexOf(client);
    if (place !== -1) this.#idle.splice(place, 1);
    client.isIdle = false;
  }
}
