import { describe, expect, it } from "vitest";
import { nearestName } from "../../../../src/app/config/problem.js";

const known = ["slots", "queue_max", "context_length", "owned_by"];

describe("nearestName", () => {
  it("finds the intended name of a typo", () => {
    expect(nearestName("slot", known)).toBe("slots");
    expect(nearestName("qeue_max", known)).toBe("queue_max");
    expect(nearestName("Context_Lenght", known)).toBe("context_length");
    expect(nearestName("inptu", ["input", "output"])).toBe("input");
  });

  it("returns null if no name is similar", () => {
    expect(nearestName("temperature", known)).toBeNull();
    expect(nearestName("x", [])).toBeNull();
  });
});
