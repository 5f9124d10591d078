import { describe, expect, it } from "vitest";
import { eachTest, type OpenState } from "./state-harness.js";

export function describeCatalogStore(open: OpenState): void {
  describe("CatalogStore", () => {
    const harness = eachTest(open);

    it("the time at which a model was first seen does not change (MODEL-2)", async () => {
      expect(await harness.state.catalog.firstSeen(["a", "b"], 1_000)).toEqual([1_000, 1_000]);
      expect(await harness.state.catalog.firstSeen(["c", "b", "a"], 2_000)).toEqual([2_000, 1_000, 1_000]);
    });

    it("distinguishes model ids by case, slashes and quotes", async () => {
      await harness.state.catalog.firstSeen(["org/Model"], 1_000);
      expect(await harness.state.catalog.firstSeen(["org/model", "org/Model", "it's"], 2_000)).toEqual([
        2_000, 1_000, 2_000,
      ]);
      expect(await harness.state.catalog.firstSeen([], 3_000)).toEqual([]);
    });

    it("returns the same time to simultaneous callers", async () => {
      const answers = await Promise.all([1, 2, 3, 4].map((nowMs) => harness.state.catalog.firstSeen(["m"], nowMs)));
      expect(new Set(answers.flat()).size).toBe(1);
    });
  });
}
