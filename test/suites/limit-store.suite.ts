import { describe, expect, it } from "vitest";
import type { StoredLimits } from "../../src/domain/metering/limit-book.js";
import { eachTest, type OpenState } from "./state-harness.js";

export function describeLimitStore(open: OpenState): void {
  describe("LimitStore", () => {
    const harness = eachTest(open);
    const stored = (kind: StoredLimits["owner"]["kind"], id: string, requestsPerMinute = 10): StoredLimits => ({
      owner: { kind, id },
      limits: { requestsPerMinute, tokensPerMinute: null, concurrency: 3 },
      updatedAtMs: 1_000,
    });

    it("returns the limits that were set, ordered by kind and id", async () => {
      const { limits } = harness.state;
      expect(await limits.list()).toEqual([]);
      const all = [stored("account", "a"), stored("account", "b"), stored("model", "Org/M"), stored("model", "org/m")];
      for (const each of all.toReversed()) await limits.put(each);
      expect(await limits.list()).toEqual(all);
    });

    it("stores token sums beyond 32 bits", async () => {
      const { limits } = harness.state;
      const kept = {
        ...stored("account", "a"),
        limits: { requestsPerMinute: null, tokensPerMinute: 1e12, concurrency: null },
      };
      await limits.put(kept);
      expect(await limits.list()).toEqual([kept]);
    });

    it("keeps the limits of the last of several writers", async () => {
      const { limits } = harness.state;
      await limits.put(stored("account", "a", 1));
      await limits.put({ ...stored("account", "a", 2), updatedAtMs: 2_000 });
      expect(await limits.list()).toEqual([{ ...stored("account", "a", 2), updatedAtMs: 2_000 }]);
    });

    it("removes the limits of one account, key or model and returns whether there were any", async () => {
      const { limits } = harness.state;
      await limits.put(stored("account", "a"));
      await limits.put(stored("model", "a"));
      expect(await limits.remove({ kind: "account", id: "a" })).toBe(true);
      expect(await limits.remove({ kind: "account", id: "a" })).toBe(false);
      expect(await limits.list()).toEqual([stored("model", "a")]);
    });
  });
}
