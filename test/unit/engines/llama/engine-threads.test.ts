import { describe, expect, it } from "vitest";
import { coresOfQuota, defaultThreads } from "../../../../src/engines/llama/llama-engine.js";

describe("threads of the engine", () => {
  it("a container's CPU quota, rounded up, limits the cores; without a quota there is no limit", () => {
    expect(coresOfQuota("150000 100000\n")).toBe(2);
    expect(coresOfQuota("400000 100000\n")).toBe(4);
    expect(coresOfQuota("10000 100000\n")).toBe(1);
    for (const none of ["max 100000\n", "max", "", "nonsense"]) {
      expect(coresOfQuota(none)).toBe(Number.POSITIVE_INFINITY);
    }
  });

  it("their default number is at least one", () => {
    expect(defaultThreads()).toBeGreaterThanOrEqual(1);
  });
});
