import { type AddressInfo, createServer, type Server } from "node:net";
import type { Config } from "../config/schema.js";

interface Ports {
  readonly port: number;
  readonly grpc_port: number;
}

/**
 * Picks the ports of the workers. For port 0 a free one is bound here until the first worker listens on it; workers that start
 * later get the same port.
 */
export async function reservePorts({ host, port, grpc_port: grpcPort }: Pick<Config["server"], "host" | keyof Ports>) {
  const holding: Server[] = [];
  const pick = async (wanted: number): Promise<number> => {
    if (wanted !== 0) return wanted;
    const server = createServer((socket) => socket.destroy());
    holding.push(server);
    return await new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(0, host, () => resolve((server.address() as AddressInfo).port));
    });
  };
  const ports: Ports = { port: await pick(port), grpc_port: await pick(grpcPort) };
  return {
    /** Resolves when the ports are free for the workers. */
    async release(): Promise<Ports> {
      await Promise.all(holding.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
      return ports;
    },
  };
}
