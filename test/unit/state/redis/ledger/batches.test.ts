import { describe, expect, it } from "vitest";
import { Batches, TurnBatch } from "../../../../../src/state/redis/ledger/batches.js";

const turn = () => new TurnBatch((send) => send());

/** A store that answers each number with its square and records which numbers were sent together. */
function squares() {
  const calls: { shard: number; items: readonly number[] }[] = [];
  const batches = new Batches<number, number>(turn(), async (shard, items) => {
    calls.push({ shard, items });
    return items.map((item) => item * item);
  });
  return { calls, batches };
}

describe("Batches", () => {
  it("combines the items of one turn of the event loop into one call per shard and returns an answer to each item", async () => {
    const { calls, batches } = squares();
    const answers = await Promise.all([batches.ask(0, 1), batches.ask(1, 2), batches.ask(0, 3)]);
    expect(answers).toEqual([1, 4, 9]);
    expect(calls).toEqual([
      { shard: 0, items: [1, 3] },
      { shard: 1, items: [2] },
    ]);
  });

  it("sends a single item in the same turn", async () => {
    const { calls, batches } = squares();
    const answer = batches.ask(0, 1);
    await new Promise<void>((resolve) => setImmediate(resolve));
    expect(calls).toHaveLength(1);
    expect(await answer).toBe(1);
  });

  it("puts at most 64 items into one call", async () => {
    const { calls, batches } = squares();
    await Promise.all(Array.from({ length: 130 }, (_, i) => batches.ask(0, i)));
    expect(calls.map(({ items }) => items.length)).toEqual([64, 64, 2]);
  });

  it("rejects only the items of the call that failed", async () => {
    const batches = new Batches<number, number>(turn(), async (shard, items) => {
      if (shard === 1) throw new Error("gone");
      return items;
    });
    const answers = await Promise.allSettled([batches.ask(0, 1), batches.ask(1, 2)]);
    expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  });

  it("rejects an item without an answer", async () => {
    const batches = new Batches<number, number>(turn(), async (_, items) => items.slice(1));
    const answers = await Promise.allSettled([batches.ask(0, 1), batches.ask(0, 2)]);
    expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  });
});
