import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";

/** A TCP listener without a protocol, for addresses that must not be reached, or for failures before any byte of HTTP. */
export interface Listener {
  readonly port: number;
  /** Number of connections ever made to it. */
  readonly connections: number;
  close(): Promise<void>;
}

export interface ListenerOptions {
  /** 127.0.0.1 by default. */
  readonly host?: string;
  /** A free port by default. */
  readonly port?: number;
  /** Handles a connection; by default it does nothing. */
  readonly onConnection?: (socket: Socket) => void;
}

export async function startListener(options: ListenerOptions = {}): Promise<Listener> {
  const { host = "127.0.0.1", port: wanted = 0, onConnection } = options;
  let connections = 0;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    // Clients may disconnect at any time.
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    onConnection?.(socket);
  });
  server.listen(wanted, host);
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    get connections() {
      return connections;
    },
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A port of this machine that refuses connections: it was free a moment ago. */
export async function refusingPort(): Promise<number> {
  const listener = await startListener();
  await listener.close();
  return listener.port;
}
