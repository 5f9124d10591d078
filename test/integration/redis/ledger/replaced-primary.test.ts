import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keySpace } from "../../../../src/state/redis/connection/key-space.js";
import { eventually } from "../../../support/eventually.js";
import { settlement } from "../../../support/records.js";
import { type RedisCluster, startRedisCluster } from "../../../support/redis/start-cluster.js";
import { openStateReplica, type Replica } from "../deliveries/delivery-worker.js";

const dayMs = 86_400_000;
const before = 5;
const unreplicated = 100;

describe("a primary of a cluster that acknowledges usage and is replaced by a replica without it", () => {
  let cluster: RedisCluster;
  let replica: Replica;
  beforeAll(async () => {
    cluster = await startRedisCluster();
    replica = await openStateReplica(cluster.url, 4);
  });
  afterAll(async () => {
    await replica?.close();
    await cluster?.remove();
  });

  it("causes no loss: each process sends the settlements of the last 30 s again, which count once (USE-1, USE-11)", async () => {
    const { ledger, usage } = replica.state;
    const [primary] = cluster.nodes;
    if (primary === undefined) throw new Error("a cluster has nodes");
    const account = await accountOn(primary);
    const settle = (number: number) => ledger.settle(settlement(`req_${number}`, { account }));
    for (let number = 0; number < before; number += 1) await settle(number);
    await primary.cli("WAIT", "1", "2000");
    const replicas = cluster.nodes.slice(3);
    for (const node of replicas) node.freeze();
    // The connection of the replica is closed, because it would still read the data in its socket.
    await primary.cli("CLIENT", "KILL", "TYPE", "replica");
    for (let number = before; number < before + unreplicated; number += 1) await settle(number);
    await primary.kill();
    for (const node of replicas) node.thaw();

    const requests = async () => {
      const now = Date.now();
      const rows = await usage.rows({ account, width: "day", fromMs: now - dayMs, toMs: now + dayMs }).catch(() => []);
      return rows.reduce((sum, row) => sum + row.requests, 0n);
    };
    const all = BigInt(before + unreplicated);
    await eventually(async () => (await requests()) >= all, "all usage is stored", 30_000);
    expect(await ledger.settle(settlement("req_0", { account }))).toMatchObject({ duplicate: true });
    expect(await requests()).toBe(all);
  });
});

/** The name of an account whose data this node has. */
async function accountOn(node: RedisCluster["nodes"][number]): Promise<string> {
  for (let number = 0; ; number += 1) {
    const account = `account${number}`;
    const found = await node.cli("GET", keySpace.shardOf(account).format).then(
      () => true,
      () => false,
    );
    if (found) return account;
  }
}
