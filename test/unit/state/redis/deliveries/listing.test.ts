import { describe, expect, it } from "vitest";
import type { DeliveryFilter } from "../../../../../src/domain/webhooks/delivery-queue.js";
import { positionsOf } from "../../../../../src/state/redis/deliveries/listing.js";

const any: DeliveryFilter = {
  account: null,
  state: null,
  endpointId: null,
  eventType: null,
  fromMs: null,
  toMs: null,
  replayId: null,
};

/**
 * Shards with deliveries that were created at these times in µs. A step examines two deliveries of a shard, and even times
 * match the filter.
 */
function scanOf(shards: readonly (readonly number[])[]) {
  const steps: string[] = [];
  const scan = async (shard: number, args: readonly (string | number)[]) => {
    const most = String(args[0]);
    steps.push(`${shard} ${most}`);
    const isBelow = (us: number) =>
      most === "+inf" || (most.startsWith("(") ? us < Number(most.slice(1)) : us <= Number(most));
    const left = (shards[shard] ?? []).filter(isBelow).toSorted((a, b) => b - a);
    const looked = left.slice(0, 2);
    const found = looked.filter((us) => us % 2 === 0).flatMap((us) => [`${shard}/${us}`, String(us)]);
    return [left.length > 2 ? String(looked.at(-1)) : "", ...found];
  };
  return { scan, steps };
}

const shards = [[10, 20, 30, 31, 33, 35, 40], [20, 22, 24], [], [39, 37]];
const newestFirst = ["0/40", "0/30", "1/24", "1/22", "1/20", "0/20", "0/10"];

describe("positionsOf", () => {
  it.each([1, 2, 3, 7, 50])("merges shards by time of creation, then by shard, in pages of %i", async (limit) => {
    const found: string[] = [];
    let after: string | null = null;
    do {
      const { scan } = scanOf(shards);
      const page = await positionsOf({ shards: [0, 1, 2, 3], filter: any, limit, after, scan });
      expect(page.positions.length).toBeLessThanOrEqual(limit);
      found.push(...page.positions.map(({ id }) => id));
      after = page.next;
    } while (after !== null);
    expect(found).toEqual(newestFirst);
  });

  it("reads no more deliveries of a shard than the page needs", async () => {
    const { scan, steps } = scanOf(shards);
    const { positions, next } = await positionsOf({ shards: [0, 1, 3], filter: any, limit: 1, after: null, scan });
    expect(positions.map(({ id }) => id)).toEqual(["0/40"]);
    expect(next).toBe("40-0");
    expect(steps.toSorted()).toEqual(["0 (31", "0 (35", "0 +inf", "1 +inf", "3 +inf"].toSorted());
  });

  it("ends a page after a bounded number of steps, and the next page continues there", async () => {
    const many = [0, 1, 2].map((shard) => Array.from({ length: 500 }, (_, at) => 2 * (at * 3 + shard) + 1));
    const rare = [[2, ...(many[0] ?? [])], many[1] ?? [], [...(many[2] ?? []), 1_000]];
    const found: string[] = [];
    const stepsOfPages: number[] = [];
    let after: string | null = null;
    do {
      const { scan, steps } = scanOf(rare);
      const page = await positionsOf({ shards: [0, 1, 2], filter: any, limit: 5, after, scan });
      found.push(...page.positions.map(({ id }) => id));
      stepsOfPages.push(steps.length);
      after = page.next;
    } while (after !== null);
    expect(found).toEqual(["2/1000", "0/2"]);
    expect(Math.max(...stepsOfPages)).toBeLessThanOrEqual(50);
    expect(stepsOfPages.length).toBeGreaterThan(10);
  });

  it("converts the times of the filter to microseconds", async () => {
    const asked: (string | number)[] = [];
    const scan = async (_shard: number, args: readonly (string | number)[]) => {
      asked.push(...args);
      return [""];
    };
    await positionsOf({
      shards: [0],
      filter: { ...any, fromMs: 5, toMs: 9, state: "awaiting_retry" },
      limit: 1,
      after: null,
      scan,
    });
    expect(asked.slice(0, 2)).toEqual(["(9000", "5000"]);
    expect(asked[4]).toBe("r");
  });
});
