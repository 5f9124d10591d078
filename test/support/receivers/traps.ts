import { networkInterfaces } from "node:os";
import ipaddr from "ipaddr.js";
import { type Listener, startListener } from "./listener.js";

/** Non-public addresses of this machine other than loopback, if it has any. */
export const privateAddresses: readonly string[] = Object.values(networkInterfaces())
  .flat()
  .flatMap((one) => (one === undefined || one.internal ? [] : one.address))
  // Listening on a link-local address would need the name of its interface.
  .filter((address) => !["unicast", "linkLocal"].includes(ipaddr.parse(address).range()));

/** Listeners that must never be connected to. */
export interface Traps {
  /** Port of the listeners, equal on each address. */
  readonly port: number;
  /** The addresses, each as the host of a URL. */
  readonly hosts: readonly string[];
  /** Number of connections ever made, by host. A correct service makes none. */
  connections(): Readonly<Record<string, number>>;
  close(): Promise<void>;
}

/** Listeners on one port of every address of this machine that is not public. `port`: a free one by default. */
export async function startTraps(port = 0): Promise<Traps> {
  const first = await startListener({ port });
  const others = ["::1", ...privateAddresses];
  const listeners = new Map<string, Listener>([["127.0.0.1", first]]);
  for (const host of others) listeners.set(urlHost(host), await startListener({ host, port: first.port }));
  return {
    port: first.port,
    hosts: [...listeners.keys()],
    connections: () => Object.fromEntries([...listeners].map(([host, { connections }]) => [host, connections])),
    async close() {
      for (const listener of listeners.values()) await listener.close();
    },
  };
}

/** All zeros, for comparison with `connections()`. */
export function noConnections({ hosts }: Traps): Readonly<Record<string, number>> {
  return Object.fromEntries(hosts.map((host) => [host, 0]));
}

/** An address as the host of a URL. */
export function urlHost(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}
