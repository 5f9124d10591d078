import { describe, expect, it } from "vitest";
import { keySpace, shardCount } from "../../../src/state/redis/connection/key-space.js";
import { capacityFor, mostShards, type Terms } from "../../bench/scale-formula.js";

const terms: Terms = {
  requestUs: 200,
  tokenUs: 2,
  redisUs: 100,
  redisBytes: 1_500,
  markerBytes: 130,
  fileBytes: 3_000,
  keyBytes: 1_700,
  activeBytes: 3_000,
  usageRowBytes: 260,
  workerBytes: 120_000_000,
  streamBytes: 100_000,
};
const load = { tokens: 200, seconds: 10, keys: 10_000, usageRows: 10_000_000 };

describe("capacityFor", () => {
  it("keeps workers 60 % and Redis 50 % busy, and has a replica to spare", () => {
    // 6 cores of work in 10 workers, and two cores of Redis, which a cluster has three masters for.
    expect(capacityFor(terms, { ...load, perSecond: 10_000 })).toEqual({
      workers: 10,
      replicas: 4,
      redisCores: 2,
      redisMasters: 3,
      redisMemoryBytes: 9_360_000_000 + 47_000_000 + 2_600_000_000,
      redisFileBytesPerSecond: 30_000_000,
      redisBitsPerSecond: 120_000_000,
      memoryBytes: 1_200_000_000 + 10_000_000_000,
    });
  });

  it("has as many masters as leave the one with the most shards half busy", () => {
    const mastersFor = (perSecond: number) => capacityFor(terms, { ...load, perSecond }).redisMasters;
    expect([5_000, 5_001, 13_334, 20_001, 26_667, 40_001].map(mastersFor)).toEqual([1, 3, 4, 8, 12, null]);
  });

  it("has two replicas and one Redis for a few requests", () => {
    const few = capacityFor(terms, { ...load, perSecond: 10 });
    expect([few.workers, few.replicas, few.redisMasters]).toEqual([1, 2, 1]);
  });
});

describe("mostShards", () => {
  it("is the number of shards on the busiest master of a new cluster", () => {
    const slots = Array.from({ length: shardCount }, (_, index) => slotOf(keySpace.shard(index).format));
    for (const [masters, most] of mostShards) {
      // `redis-cli --cluster create` gives each master a range of equal length.
      const counts = Array.from({ length: masters }, () => 0);
      for (const slot of slots) {
        const master = Math.floor((slot * masters) / slotCount);
        counts[master] = (counts[master] ?? 0) + 1;
      }
      expect([masters, Math.max(...counts)]).toEqual([masters, most]);
    }
  });
});

const slotCount = 16_384;

/** The slot of a key with a hash tag: CRC-16/XMODEM of the tag. */
function slotOf(key: string): number {
  const tag = /\{(.+?)\}/.exec(key)?.[1] ?? key;
  let crc = 0;
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = ((crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021) & 0xffff;
  }
  return crc % slotCount;
}
