import { describe, expect, it } from "vitest";
import { Restarts } from "../../../../src/app/workers/restarts.js";

describe("replacements of workers that crash", () => {
  it("are delayed by at most a second, and stop at the fifth crash within five minutes (REL-28)", () => {
    const restarts = new Restarts(() => 0);
    expect(Array.from({ length: 5 }, () => restarts.crashed())).toEqual([0, 250, 500, 1_000, null]);
  });

  it("continue when the crashes are further apart", () => {
    let nowMs = 0;
    const restarts = new Restarts(() => nowMs);
    for (let crash = 0; crash < 20; crash += 1) {
      expect(restarts.crashed()).not.toBeNull();
      nowMs += 80_000;
    }
  });
});
