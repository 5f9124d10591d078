import { afterAll, beforeAll, describe, it } from "vitest";
import { keySpace } from "../../../src/state/redis/connection/key-space.js";
import { eventually } from "../../support/eventually.js";
import { type RedisCluster, startRedisCluster } from "../../support/redis/start-cluster.js";
import { type SeparateHosts, startSeparateHosts } from "../../support/separate-hosts.js";
import { ClusterLoad } from "./cluster-load.js";

const ids = "(REL-15, state RL-16, state RL-17, USE-1, USE-11, WH-35)";
const nodeCount = 6;
/** Value of `cluster-node-timeout` that docs/capacity.md recommends. */
const nodeTimeoutMs = 2_000;
const settings = ["--cluster-node-timeout", String(nodeTimeoutMs)];
const perPrimary = 2;
const awayMs = 30_000;
const testMs = 300_000;

describe("a Redis Cluster of six hosts under two services", () => {
  let network: SeparateHosts;
  let cluster: RedisCluster;
  let load: ClusterLoad;
  beforeAll(async () => {
    network = await startSeparateHosts(nodeCount);
    cluster = await startRedisCluster({ hosts: network.hosts, args: settings });
    const accounts = await accountsOfPrimaries(cluster);
    load = await ClusterLoad.start(cluster.url, accounts, ["killed", "partitioned", "seen-by-clients"]);
  }, testMs);
  afterAll(async () => {
    await load?.remove();
    await cluster?.remove();
    await network?.remove();
  });

  /** Returns the host and the process of one of the initial primaries. */
  const primary = (n: number) => {
    const [node, host] = [cluster.nodes[n], network.hosts[n]];
    if (node === undefined || host === undefined) throw new Error(`there is no node ${n}`);
    return { node, host };
  };
  const isReplica = (n: number) =>
    eventually(
      async () =>
        (
          await primary(n)
            .node.cli("ROLE")
            .catch(() => "")
        ).startsWith("slave"),
      "it returns",
      30_000,
    );

  it(`clients see no failures and no data is lost when a primary is killed ${ids}`, { timeout: testMs }, async () => {
    const { node } = primary(0);
    const end = async () => {
      await node.restart();
      await isReplica(0);
    };
    await load.survive("killed", { begin: () => node.kill(), awayMs, end });
  });

  it(`clients see no failures and no data is lost when a primary has no network for 30 s ${ids}`, {
    timeout: testMs,
  }, async () => {
    const { host } = primary(1);
    const end = async () => {
      host.reconnect();
      await isReplica(1);
    };
    await load.survive("partitioned", { begin: () => host.cutOff(), awayMs, end });
  });

  it(`clients see no failures and no data is lost when only the services reach a primary for 30 s ${ids}`, {
    timeout: testMs,
  }, async () => {
    const { host } = primary(2);
    const end = async () => {
      host.reconnect();
      await isReplica(2);
    };
    // The isolated primary accepts writes until its pings to other nodes have been unanswered for this long.
    const forgottenMs = 1.5 * nodeTimeoutMs;
    await load.survive("seen-by-clients", { begin: () => host.cutOffFromHosts(), awayMs, forgottenMs, end });
  });
});

/** Names of accounts, the same number on each primary. */
async function accountsOfPrimaries({ nodes }: RedisCluster): Promise<readonly string[]> {
  const found = nodes.slice(0, 3).map((): string[] => []);
  for (let number = 0; found.some((names) => names.length < perPrimary); number += 1) {
    const account = `account${number}`;
    const holds = await Promise.all(
      nodes.slice(0, 3).map((node) =>
        node.cli("GET", keySpace.shardOf(account).format).then(
          () => true,
          () => false,
        ),
      ),
    );
    const names = found[holds.indexOf(true)];
    if (names !== undefined && names.length < perPrimary) names.push(account);
  }
  return found.flat();
}
