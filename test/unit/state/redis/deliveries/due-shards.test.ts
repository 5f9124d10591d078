import { describe, expect, it } from "vitest";
import type { RedisClient } from "../../../../../src/state/redis/connection/client.js";
import { createStoreTime, ScriptRunner } from "../../../../../src/state/redis/connection/scripts.js";
import { DueShards } from "../../../../../src/state/redis/deliveries/due-shards.js";

import { eventually } from "../../../../support/eventually.js";
import { FakeClock } from "../../../../support/fake-clock.js";

/** A server whose shards have their next due delivery at these times. The key of the call selects the shard. */
function createShards() {
  const clock = new FakeClock();
  const nextDue = new Map<number, number>();
  const server = { looks: 0, isDown: false };
  const client: RedisClient = {
    async run(_script, [format = ""]) {
      server.looks += 1;
      if (server.isDown) throw new Error("down");
      return [clock.now(), String(nextDue.get(Number(/\{s(\d+)\}/.exec(format)?.[1])) ?? "")];
    },
    command: async () => {
      throw new Error("only scripts are run");
    },
    together: (send) => send(),
  };

  const runner = new ScriptRunner(client, createStoreTime(clock));
  const shards = new DueShards(runner, clock);
  return { clock, nextDue, server, shards };
}

describe("DueShards", () => {
  it("polls every shard once, then calls only shards that have due deliveries", async () => {
    const { clock, nextDue, server, shards } = createShards();
    nextDue.set(3, clock.now() + 500);
    expect(await shards.due()).toEqual([]);
    expect(server.looks).toBe(16);
    expect(shards.nextInMs()).toBe(500);
    expect(await shards.due()).toEqual([]);
    expect(server.looks).toBe(16);
    clock.advance(500);
    expect(await shards.due()).toEqual([3]);
    expect(shards.nextInMs()).toBe(0);
  });

  it("lists the shard with the longest wait first", async () => {
    const { clock, nextDue, shards } = createShards();
    nextDue.set(9, clock.now() - 200);
    nextDue.set(2, clock.now() - 100);
    nextDue.set(5, clock.now() - 300);
    expect(await shards.due()).toEqual([5, 9, 2]);
  });

  it("notifies listeners of local changes immediately and of changes by other processes within 200 ms", async () => {
    const { clock, nextDue, server, shards } = createShards();
    await shards.due();
    let told = 0;
    const end = shards.onDue(() => {
      told += 1;
    });
    shards.noteDue(4, String(clock.now() + 60_000));
    expect(told).toBe(0);
    shards.noteDue(4, String(clock.now()));
    expect(told).toBe(1);

    shards.noteDue(4, "");
    nextDue.set(7, clock.now());
    clock.advance(200);
    await eventually(() => told === 2, "a notification");
    expect(shards.knownDue()).toEqual([7]);

    end();
    const before = server.looks;
    clock.advance(10_000);
    expect(server.looks).toBe(before);
  });

  it("rejects while the store is unavailable and no shard is known to be due, and continues to poll", async () => {
    const { clock, nextDue, server, shards } = createShards();
    await shards.due();
    server.isDown = true;
    clock.advance(200);
    await expect(shards.due()).rejects.toThrow("down");
    shards.noteDue(1, "0");
    expect(await shards.due()).toEqual([1]);
    server.isDown = false;
    nextDue.set(6, clock.now());
    clock.advance(200);
    expect(await shards.due()).toEqual([6]);
  });
});
