import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { DeliveryDesk, leaseMs, succeeded } from "../../../suites/delivery-records.js";
import { eventually } from "../../../support/eventually.js";
import { endpoint } from "../../../support/records.js";
import { type RedisServer, startRedis } from "../../../support/redis/start-redis.js";
import { rounds } from "../../../support/tier.js";
import { DeliveryWorker, openStateReplica, type Replica } from "./delivery-worker.js";

/** Maximum lateness of an idle worker: five times the aim, for machines that are busy with other work. */
const lateMsMax = 5 * 250;
const idleMs = 2_000;
/** Maximum number of scripts per second of an idle worker: five polls of each of the 16 shards. */
const idleScriptsPerSecond = 80;

describe("replicas that share the deliveries of one Redis", () => {
  let redis: RedisServer;
  let one: Replica;
  let two: Replica;
  let desk: DeliveryDesk;
  beforeAll(async () => {
    redis = await startRedis({ aof: "no" });
  });
  beforeEach(async () => {
    await redis.cli("FLUSHALL");
    [one, two] = await Promise.all([openStateReplica(redis.url), openStateReplica(redis.url)]);
    desk = new DeliveryDesk({ ...one, leewayMs: 5_000 });
  });
  afterEach(async () => {
    await Promise.all([one?.close(), two?.close()]);
  });
  afterAll(() => redis?.remove());

  it("send each delivery once, although they compete for it (WH-32)", async () => {
    const accounts = ["a", "b", "c", "d", "e"];
    for (const account of accounts) await desk.insert(endpoint(`we_${account}`, { account, maxInFlight: 64 }));
    const held = new Set<string>();
    const claim = ({ deliveryId }: { deliveryId: string }) => {
      expect(held.has(deliveryId)).toBe(false);
      held.add(deliveryId);
    };
    const made = await Promise.all(accounts.map((account) => desk.emitMany(rounds(1_000), `we_${account}`, account)));
    const workers = [one, two].map(({ state }) => new DeliveryWorker(state, claim));
    const isDone = () => workers.reduce((sum, { delivered }) => sum + delivered.length, 0) >= made.flat().length;
    await eventually(isDone, "all are delivered", 30_000);
    await Promise.all(workers.map((worker) => worker.end()));
    expect(workers.flatMap(({ delivered }) => delivered).toSorted()).toEqual(made.flat().toSorted());
    for (const { delivered } of workers) expect(delivered.length).toBeGreaterThan(0);
  });

  it("cannot end a delivery after a suspension beyond their lease if another worker holds it (WH-33)", async () => {
    await desk.insert(endpoint("we_a"));
    const id = await desk.emit("we_a");
    const [asleep] = await desk.claim();
    await Promise.all([one.advance(leaseMs), two.advance(leaseMs)]);
    const { claims } = await two.state.deliveries.claim({ max: 64, leaseMs });
    expect(claims.map(({ deliveryId }) => deliveryId)).toEqual([id]);
    if (asleep === undefined) throw new Error("one was claimed");
    expect(await desk.finish(asleep, succeeded)).toBeNull();
    await desk.queue.handBack([asleep]);
    expect(await desk.find(id)).toMatchObject({ state: "delivery_attempted", attemptsMade: 0 });
  });

  it("together have at most the endpoint's maximum of attempts in flight (WH-37)", async () => {
    await desk.insert(endpoint("we_a", { maxInFlight: 5 }));
    await desk.emitMany(20, "we_a");
    const claims = await Promise.all(
      [one, two, one, two].map(({ state }) => state.deliveries.claim({ max: 64, leaseMs })),
    );
    expect(claims.flatMap((each) => each.claims)).toHaveLength(5);
  });

  it("claim new deliveries and retries of another process when they are due (WH-26)", async () => {
    await desk.insert(endpoint("we_a"));
    const claimedAtMs = new Map<string, number>();
    const worker = new DeliveryWorker(two.state, ({ deliveryId }) => claimedAtMs.set(deliveryId, performance.now()));
    for (let n = 0; n < rounds(30); n++) {
      const id = await desk.emit("we_a");
      const madeAtMs = performance.now();
      await eventually(() => claimedAtMs.has(id), "the delivery is claimed");
      expect((claimedAtMs.get(id) ?? 0) - madeAtMs).toBeLessThan(lateMsMax);
    }
    await worker.end();
  });

  it("stop deliveries to an endpoint that another replica disables (WH-30)", async () => {
    await desk.insert(endpoint("we_a"));
    const ids = await desk.emitMany(300, "we_a");
    await desk.disable("we_a");
    const worker = new DeliveryWorker(two.state);
    const isEmpty = async () => (await desk.queue.backlog()).length === 0;
    await eventually(isEmpty, "the queue is emptied");
    await worker.end();
    expect(worker.delivered).toEqual([]);
    expect(await desk.find(ids[299] ?? "")).toMatchObject({ reason: "endpoint_disabled" });
  });

  it("send few commands while they are idle", async () => {
    await two.close();
    const worker = new DeliveryWorker(one.state);
    const scripts = async () =>
      Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.cli("INFO", "commandstats"))?.[1]);
    const before = await scripts();
    const startedAtMs = performance.now();
    await eventually(() => performance.now() - startedAtMs >= idleMs, "the time of the measurement is over");
    const perSecond = ((await scripts()) - before) / ((performance.now() - startedAtMs) / 1_000);
    await worker.end();
    two = await openStateReplica(redis.url);
    expect(perSecond).toBeGreaterThan(0);
    expect(perSecond).toBeLessThan(1.5 * idleScriptsPerSecond);
  });
});
