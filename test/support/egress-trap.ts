import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A proxy that forwards nothing. */
export interface EgressTrap {
  /** Variables that send all requests of a program to the proxy, except those to the loopback address. */
  readonly env: Readonly<Record<string, string>>;
  /** Hosts that were requested through it. */
  readonly hosts: readonly string[];
  close(): Promise<void>;
}

/** Starts a proxy that refuses every request, and records the hosts other than this machine that a program requests. */
export async function startEgressTrap(): Promise<EgressTrap> {
  const hosts: string[] = [];
  const server = createServer((request, response) => {
    hosts.push(request.url ?? "");
    response.writeHead(403).end();
  });
  server.on("connect", (request, socket) => {
    hosts.push(request.url ?? "");
    socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const proxy = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) => [name, name.toLowerCase()]);
  const direct = "127.0.0.1,localhost";
  return {
    env: { ...Object.fromEntries(names.map((name) => [name, proxy])), NO_PROXY: direct, no_proxy: direct },
    hosts,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
