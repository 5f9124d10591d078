import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** A TCP proxy to a Redis server that delays or drops replies. */
export interface SlowLink {
  /** URL of the server through this proxy. */
  readonly url: string;
  /** Additional delay of each reply, in ms. */
  delayMs: number;
  /** Drops replies that contain this text, on connections that stay open; null drops all. */
  swallow: string | null;
  close(): Promise<void>;
}

/** Starts a proxy to the server on `port` of this machine. */
export async function openSlowLink(port: number): Promise<SlowLink> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect({ port, host: "127.0.0.1", noDelay: true });
    client.setNoDelay(true);
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => other.destroy());
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    client.on("data", (data) => upstream.write(data));
    // Keeps the order of replies, also when the delay becomes shorter.
    let passed = Promise.resolve();
    upstream.on("data", (data) => {
      if (link.swallow !== null && data.includes(link.swallow)) return;
      const late = link.delayMs === 0 ? Promise.resolve() : delay(link.delayMs);
      passed = Promise.all([passed, late]).then(() => void client.write(data));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const link: SlowLink = {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    delayMs: 0,
    swallow: null,
    async close() {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
  return link;
}
