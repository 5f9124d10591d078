import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** A proxy to a server. When it is severed, clients see the same as after a kill of the server. */
export interface Link {
  /** `127.0.0.1:<port>` */
  readonly address: string;
  /** Resets all connections, and refuses new ones until `restore`. */
  sever(): Promise<void>;
  restore(): Promise<void>;
  close(): Promise<void>;
}

export async function linkTo(target: string): Promise<Link> {
  const [host = "", port = ""] = target.split(":");
  const sockets = new Set<Socket>();
  let server: Server | null = null;
  let own = 0;
  const join = (a: Socket, b: Socket): void => {
    sockets.add(a);
    a.on("error", () => b.destroy()).on("close", () => {
      sockets.delete(a);
      b.destroy();
    });
    a.pipe(b);
  };
  async function restore(): Promise<void> {
    server = createServer((client) => {
      const upstream = connect(Number(port), host);
      join(client, upstream);
      join(upstream, client);
    }).listen(own, "127.0.0.1");
    await once(server, "listening");
    own = (server.address() as AddressInfo).port;
  }
  async function sever(): Promise<void> {
    if (server === null) return;
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.resetAndDestroy();
    server = null;
    await closed;
  }
  await restore();
  return { address: `127.0.0.1:${own}`, sever, restore, close: sever };
}
