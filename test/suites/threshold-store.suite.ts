import { describe, expect, it } from "vitest";
import { threshold } from "../support/records.js";
import { eachTest, type OpenState } from "./state-harness.js";

export function describeThresholdStore(open: OpenState): void {
  describe("ThresholdStore", () => {
    const harness = eachTest(open);

    it("returns every field, oldest first (USE-4)", async () => {
      const { thresholds } = harness.state;
      const all = [
        threshold("thr_b", { createdAtMs: 1_000, metric: "cost", period: "day", percents: [50, 80, 100] }),
        threshold("thr_a", { createdAtMs: 2_000, apiKeyId: "key_1", action: "refuse", account: "other" }),
        threshold("thr_c", { createdAtMs: 3_000, metric: "requests", limit: 2n ** 62n }),
      ];
      for (const each of all.toReversed()) await thresholds.insert(each);
      expect(await thresholds.list()).toEqual(all);
    });

    it("rejects an id that exists and keeps the first threshold", async () => {
      const { thresholds } = harness.state;
      await thresholds.insert(threshold("thr_a"));
      const again = thresholds.insert(threshold("thr_a", { limit: 5n }));
      await expect(again).rejects.toMatchObject({ code: "conflict" });
      expect(await thresholds.list()).toEqual([threshold("thr_a")]);
    });

    it("replaces and removes existing thresholds", async () => {
      const { thresholds } = harness.state;
      const changed = threshold("thr_a", { limit: 5n, updatedAtMs: 9_000 });
      expect(await thresholds.replace(changed)).toBe(false);
      await thresholds.insert(threshold("thr_a"));
      expect(await thresholds.replace(changed)).toBe(true);
      expect(await thresholds.list()).toEqual([changed]);
      expect(await thresholds.remove("thr_a")).toBe(true);
      expect(await thresholds.remove("thr_a")).toBe(false);
      expect(await thresholds.list()).toEqual([]);
    });
  });
}
