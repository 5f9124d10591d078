import { describe, expect, it } from "vitest";
import { periodAt } from "../../../../src/domain/events/events.js";
import { keySpace, shardCount } from "../../../../src/state/redis/connection/key-space.js";

const space = keySpace;

describe("KeySpace", () => {
  it("gives all keys of an account the same hash tag", () => {
    const shard = space.shardOf("acme");
    const atMs = Date.UTC(2026, 10, 21, 13);
    const owner = { kind: "key" as const, id: "key_1" };
    const keys = [
      shard.format,
      shard.live,
      shard.leases,
      shard.accounts,
      shard.bodies,
      shard.ended("req_1"),
      shard.refused("req_1"),
      shard.window("acme", owner),
      shard.running("acme", { kind: "model", id: "org/m:8b" }),
      shard.reserved("acme", owner),
      shard.usageRows("acme", "hour", atMs),
      shard.usageRows("acme", "day", atMs),
      shard.sums("acme", owner, periodAt("month", atMs)),
      shard.endpoints("acme"),
      shard.endpointHealth("acme"),
    ];
    for (const key of keys) expect(key.startsWith(`uis:{s${shard.index}}:`)).toBe(true);
    expect(new Set(keys).size).toBe(keys.length);
  });

  it("returns the same shards and key names as earlier versions", () => {
    const shard = space.shardOf("default");
    expect(shard.sums("default", { kind: "account", id: "default" }, periodAt("day", Date.UTC(2026, 10, 21, 13)))).toBe(
      `uis:{s${shard.index}}:p:default:account:default:2026-11-21`,
    );
    expect(["a", "default", "acme"].map((account) => space.shardOf(account).index)).toEqual([7, 5, 10]);
  });

  it("spreads accounts over all shards", () => {
    const used = new Set(Array.from({ length: 500 }, (_, i) => space.shardOf(`account-${i}`).index));
    expect(used.size).toBe(shardCount);
  });

  it("throws for a shard that does not exist", () => {
    expect(() => space.shard(shardCount)).toThrow(RangeError);
  });
});
