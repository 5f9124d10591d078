import { execFileSync } from "node:child_process";
import { eventually } from "../eventually.js";
import { freePort, newFolder, type RedisProcess, startProgram } from "./redis-process.js";
import { baseArgs, readyLine } from "./start-redis.js";

export interface RedisCluster {
  readonly url: string;
  /** The first three are primaries, the others their replicas. */
  readonly nodes: readonly RedisProcess[];
  /** Empties the database. */
  flush(): Promise<void>;
  remove(): Promise<void>;
}

const nodeCount = 6;
/** Time after which a silent node is replaced by its replica. */
const nodeTimeoutMs = 1_000;

/** Starts three primaries with a replica each. */
export async function startRedisCluster(): Promise<RedisCluster> {
  const nodes: RedisProcess[] = [];
  for (let n = 0; n < nodeCount; n += 1) nodes.push(await startNode());
  const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`);
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

async function startNode(): Promise<RedisProcess> {
  const [port, busPort, folder] = [await freePort(), await freePort(), newFolder()];
  const cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", String(nodeTimeoutMs)];
  // The remaining nodes stay available while one is being replaced.
  cluster.push("--cluster-require-full-coverage", "no");
  const args = ["--port", String(port), "--cluster-port", String(busPort), ...cluster, ...baseArgs("everysec")];
  return startProgram({ args, port, folder, readyLine });
}

async function isWhole(nodes: readonly RedisProcess[]): Promise<boolean> {
  const states = await Promise.all(nodes.map((node) => node.cli("CLUSTER", "INFO")));
  const roles = await Promise.all(nodes.map((node) => node.cli("ROLE")));
  const replicas = roles.filter((role) => role.startsWith("slave") && role.includes("connected"));
  return states.every((state) => state.includes("cluster_state:ok")) && replicas.length === nodes.length / 2;
}
