import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keySpace } from "../../../../src/state/redis/connection/key-space.js";
import { DeliveryDesk, listAll } from "../../../suites/delivery-records.js";
import { eventually } from "../../../support/eventually.js";
import { endpoint } from "../../../support/records.js";
import { type RedisCluster, startRedisCluster } from "../../../support/redis/start-cluster.js";
import { DeliveryWorker, openStateReplica, type Replica } from "./delivery-worker.js";

const accounts = Array.from({ length: 24 }, (_, n) => `account${n}`);
const each = 5;
const space = keySpace;

describe("deliveries in a cluster of six nodes", () => {
  let cluster: RedisCluster;
  let replica: Replica;
  let desk: DeliveryDesk;
  beforeAll(async () => {
    cluster = await startRedisCluster();
    replica = await openStateReplica(cluster.url, 4);
    desk = new DeliveryDesk({ ...replica, leewayMs: 5_000 });
    for (const account of accounts) await desk.insert(endpoint(`we_${account}`, { account }));
  });
  afterAll(async () => {
    await replica?.close();
    await cluster?.remove();
  });

  const emitAll = async (of: readonly string[]) =>
    (await Promise.all(of.map((account) => desk.emitMany(each, `we_${account}`, account)))).flat();

  it("are spread over all primaries, and are found, listed, delivered and purged as on one server", async () => {
    const worker = new DeliveryWorker(replica.state);
    const ids = await emitAll(accounts);
    await eventually(() => worker.delivered.length === ids.length, "all are delivered", 20_000);
    await worker.end();
    expect((await listAll(desk.queue)).map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
    const sizes = await Promise.all(cluster.nodes.slice(0, 3).map((node) => node.cli("DBSIZE")));
    for (const size of sizes) expect(Number(size)).toBeGreaterThan(0);
    expect(await desk.find(ids[7] ?? "")).toMatchObject({ state: "delivered" });
  });

  it("are delivered from the replica of a lost node, while deliveries on other nodes continue (WH-35)", async () => {
    const [lostNode] = cluster.nodes;
    if (lostNode === undefined) throw new Error("a cluster has nodes");
    const isOn = async (account: string) =>
      lostNode.cli("GET", space.shardOf(account).format).then(
        () => true,
        () => false,
      );
    const places = await Promise.all(accounts.map(isOn));
    const lost = accounts.filter((_, i) => places[i]);
    const kept = accounts.filter((_, i) => !places[i]);
    expect(Math.min(lost.length, kept.length)).toBeGreaterThan(0);

    const waiting = await emitAll(lost);
    // Waits until the replica has all writes, because writes that it lacks are lost with its primary.
    await lostNode.cli("WAIT", "1", "2000");
    await lostNode.kill();
    const worker = new DeliveryWorker(replica.state);
    const others = await emitAll(kept);
    await eventually(() => others.every((id) => worker.delivered.includes(id)), "other nodes deliver", 20_000);
    await eventually(() => waiting.every((id) => worker.delivered.includes(id)), "the replica delivers", 30_000);
    await worker.end();
  });
});
