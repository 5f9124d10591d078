import { describe, expect, it } from "vitest";
import type { RedisClient } from "../../../../src/state/redis/connection/client.js";
import { ReplicaCount } from "../../../../src/state/redis/replicas.js";
import { FakeClock } from "../../../support/fake-clock.js";

/** Advances time by one report, which is two seconds; the store then returns `counted`, or fails if that is null. */
async function setUp() {
  const clock = new FakeClock();
  let counted: number | null = 3;
  let tellNews = (): void => {};
  const changes = {
    channel: "uis:changes",
    replicaNews: "news",
    onReplicaNews: (listener: () => void) => {
      tellNews = listener;
    },
  };
  const client: RedisClient = {
    run: () => (counted === null ? Promise.reject(new Error("away")) : Promise.resolve(counted)),
    command: () => Promise.reject(new Error("not asked here")),
    together: (send) => send(),
  };
  const replicas = new ReplicaCount({ client, clock, changes });
  await replicas.start();
  const countAfter = async (says: number | null, happens: () => void) => {
    counted = says;
    happens();
    await new Promise((resolve) => setImmediate(resolve));
    return replicas.known;
  };
  const note = (says: number | null) => countAfter(says, () => clock.advance(2_000));
  const hear = (says: number | null) => countAfter(says, tellNews);
  return { replicas, note, hear };
}

describe("ReplicaCount", () => {
  it("returns the number of processes that the store counts, at least 1", async () => {
    const { replicas, note } = await setUp();
    expect(replicas.known).toBe(3);
    expect([await note(5), await note(2), await note(0)]).toEqual([5, 2, 1]);
  });

  it("does not decrease during an outage, or afterwards until all replicas had time to report again (state RL-17)", async () => {
    const { note } = await setUp();
    expect([await note(null), await note(null)]).toEqual([3, 3]);
    // The store has removed the processes that could not report.
    expect([await note(1), await note(2), await note(2), await note(2)]).toEqual([3, 3, 3, 3]);
    expect(await note(2)).toBe(2);
  });

  it("increases immediately after an outage", async () => {
    const { note } = await setUp();
    expect([await note(null), await note(4)]).toEqual([3, 4]);
  });

  it("counts again when another process starts or stops (state RL-16)", async () => {
    const { hear } = await setUp();
    expect([await hear(4), await hear(3)]).toEqual([4, 3]);
  });
});
