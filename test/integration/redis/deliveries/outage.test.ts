import { readdirSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { deliveryId } from "../../../../src/domain/webhooks/delivery.js";
import { DeliveryDesk, event, listAll } from "../../../suites/delivery-records.js";
import { eventually } from "../../../support/eventually.js";
import { endpoint, settlement } from "../../../support/records.js";
import { type RedisServer, startRedis } from "../../../support/redis/start-redis.js";
import { rounds } from "../../../support/tier.js";
import { DeliveryWorker, openStateReplica, type Replica } from "./delivery-worker.js";

const resumeMsMax = 5_000;
/** Timeout that is long enough for a machine that is busy with other work. */
const patienceMs = 90_000;
const eachRound = 60;
const dayMs = 86_400_000;

describe("deliveries while Redis is unavailable", () => {
  let redis: RedisServer;
  let replica: Replica;
  let desk: DeliveryDesk;
  beforeEach(async () => {
    redis = await startRedis({ aof: "always" });
    replica = await openStateReplica(redis.url, 4);
    desk = new DeliveryDesk({ ...replica, leewayMs: 5_000 });
    await desk.insert(endpoint("we_a", { maxInFlight: 64 }));
  });
  afterEach(async () => {
    await replica?.close();
    await redis?.remove();
  });

  it("no delivery is lost or ended twice when Redis is killed repeatedly (WH-32)", async () => {
    const worker = new DeliveryWorker(replica.state);
    const expected: string[] = [];
    /** Repeats a settlement until it is acknowledged, like the spool. */
    const settleAtLast = async (number: number) => {
      const request = settlement(`req_${number}`, { event: event(number) });
      await eventually(
        () =>
          Promise.resolve(replica.state.ledger.settle(request)).then(
            () => true,
            () => false,
          ),
        "the settlement is stored",
        patienceMs,
      );
      expected.push(deliveryId(event(number).id, "we_a"));
    };
    for (let round = 0; round < rounds(20); round++) {
      const numbers = Array.from({ length: eachRound }, (_, i) => round * eachRound + i);
      const settling = Promise.all(numbers.map(settleAtLast));
      await eventually(() => expected.length > round * eachRound, "some requests are settled");
      await redis.kill();
      await redis.restart();
      await settling;
    }
    // Deliveries that were claimed at a kill are due again when their lease ends.
    const isEmpty = async () => {
      // Events are counted before deliveries, so that no event that becomes a delivery between the two counts is missed.
      const { events } = await desk.queue.waitingEvents();
      return events + (await desk.queue.backlog()).length === 0;
    };
    await eventually(() => isEmpty().catch(() => false), "all are delivered", patienceMs);
    await worker.end();
    const states = await Promise.all(expected.map(async (id) => desk.find(id)));
    expect(states.every(({ state, attemptsMade }) => state === "delivered" && attemptsMade === 1)).toBe(true);
    expect(new Set(worker.delivered).size).toBe(worker.delivered.length);
  }, 120_000);

  it("a crash in the middle of a write keeps either the whole settlement or nothing of it, also after another crash (WH-32)", async () => {
    await replica.state.ledger.settle(settlement("req_1", { event: event(1) }));
    await redis.kill();
    const folder = join(redis.folder, "appendonlydir");
    const [file = ""] = readdirSync(folder).filter((name) => name.endsWith(".incr.aof"));
    truncateSync(join(folder, file), statSync(join(folder, file)).size - 20);
    await redis.restart();
    for (const number of [1, 2]) {
      const request = settlement(`req_${number}`, { event: event(number) });
      const settled = () =>
        Promise.resolve(replica.state.ledger.settle(request)).then(
          ({ duplicate }) => !duplicate,
          () => false,
        );
      await eventually(settled, "the request is settled once", patienceMs);
    }
    await redis.kill();
    await redis.restart();
    await eventually(
      () =>
        desk.queue.fanOut(10).then(
          () => true,
          () => false,
        ),
      "Redis is used again",
      patienceMs,
    );
    expect((await listAll(desk.queue, {})).map(({ eventId }) => eventId).toSorted()).toEqual([
      event(1).id,
      event(2).id,
    ]);
    const usage = await replica.state.usage.rows({ account: "a", width: "day", fromMs: 0, toMs: Date.now() + dayMs });
    expect(usage).toMatchObject([{ requests: 2n }]);
  });

  it("dispatching continues within 5 s on a Redis that returns without data, without a restart (WH-35)", async () => {
    const worker = new DeliveryWorker(replica.state);
    const [before = ""] = await desk.emitMany(1, "we_a");
    await eventually(() => worker.delivered.includes(before), "it is delivered");
    await redis.kill();
    rmSync(join(redis.folder, "appendonlydir"), { recursive: true, force: true });
    await redis.restart();
    const backAtMs = performance.now();
    await eventually(
      () =>
        desk.insert(endpoint("we_a")).then(
          () => true,
          () => false,
        ),
      "an endpoint is registered",
    );
    const after = await desk.emit("we_a");
    await eventually(() => worker.delivered.includes(after), "it is delivered");
    expect(performance.now() - backAtMs).toBeLessThan(resumeMsMax);
    expect(await desk.queue.find(before)).toBeNull();
    await worker.end();
  });

  it("a pending retry is delivered on time if Redis was unavailable before (WH-35)", async () => {
    const id = await desk.emit("we_a");
    await desk.attempt({ state: "awaiting_retry", delayMs: 1_000 });
    await redis.kill();
    const worker = new DeliveryWorker(replica.state);
    await eventually(() => worker.failures > 0, "the outage is noticed");
    await redis.restart();
    await eventually(() => worker.delivered.includes(id), "it is delivered", resumeMsMax);
    expect(await desk.find(id)).toMatchObject({ state: "delivered", attemptsMade: 2 });
    await worker.end();
  });
});
