import { execFileSync } from "node:child_process";
import { eventually } from "../eventually.js";
import type { SeparateHost } from "../separate-hosts.js";
import { freePort, newFolder, type RedisProcess, startProgram } from "./redis-process.js";
import { baseArgs, readyLine } from "./start-redis.js";

export interface RedisCluster {
  readonly url: string;
  /** The first three are primaries, the others their replicas. */
  readonly nodes: readonly RedisProcess[];
  /** Deletes all data of the cluster. */
  flush(): Promise<void>;
  remove(): Promise<void>;
}

const nodeCount = 6;
/** Time after which a silent node is replaced by its replica. */
const nodeTimeoutMs = 1_000;

export interface RedisClusterOptions {
  /** A host for each of the six nodes; default: all on this one. */
  readonly hosts?: readonly SeparateHost[];
  /** Further settings of all nodes. */
  readonly args?: readonly string[];
}

/** Starts three primaries with a replica each. */
export async function startRedisCluster({ hosts = [], args = [] }: RedisClusterOptions = {}): Promise<RedisCluster> {
  const nodes: RedisProcess[] = [];
  for (let n = 0; n < nodeCount; n += 1) nodes.push(await startNode(hosts[n] ?? null, args));
  const addresses = nodes.map(({ port }, n) => `${hosts[n]?.address ?? "127.0.0.1"}:${port}`);
  execFileSync("redis-cli", ["--cluster", "create", ...addresses, "--cluster-replicas", "1", "--cluster-yes"]);
  const primaries = nodes.slice(0, nodeCount / 2);
  await eventually(() => isWhole(nodes), "a cluster in which all nodes know all slots", 30_000);
  return {
    url: `redis+cluster://${addresses.slice(0, 3).join(",")}`,
    nodes,
    async flush() {
      await Promise.all(primaries.map((node) => node.cli("FLUSHALL")));
    },
    async remove() {
      await Promise.all(nodes.map((node) => node.remove()));
    },
  };
}

async function startNode(host: SeparateHost | null, more: readonly string[]): Promise<RedisProcess> {
  const [port, busPort, folder] = [await freePort(), await freePort(), newFolder()];
  const cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", String(nodeTimeoutMs)];
  // The remaining nodes stay available while one is being replaced.
  cluster.push("--cluster-require-full-coverage", "no");
  const args = ["--port", String(port), "--cluster-port", String(busPort), ...baseArgs("everysec"), ...cluster];
  if (host === null) return startProgram({ args: [...args, ...more], port, folder, readyLine });
  args.push("--bind", host.address, "--protected-mode", "no", ...more);
  return startProgram({ args, port, folder, readyLine, cliArgs: ["-h", host.address], under: host.under });
}

async function isWhole(nodes: readonly RedisProcess[]): Promise<boolean> {
  const states = await Promise.all(nodes.map((node) => node.cli("CLUSTER", "INFO")));
  const roles = await Promise.all(nodes.map((node) => node.cli("ROLE")));
  const replicas = roles.filter((role) => role.startsWith("slave") && role.includes("connected"));
  return states.every((state) => state.includes("cluster_state:ok")) && replicas.length === nodes.length / 2;
}
