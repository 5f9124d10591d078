import { describe, expect, it } from "vitest";
import { createByteBudget } from "../../../../src/transports/http/body-limits.js";

describe("byte budget", () => {
  it("gives out exactly its maximum and takes nothing when it refuses", () => {
    const budget = createByteBudget(() => 100);
    expect(budget.take(60)).toBe(true);
    expect(budget.take(41)).toBe(false);
    expect(budget.used).toBe(60);
    expect(budget.take(40)).toBe(true);
    expect(budget.take(1)).toBe(false);
  });

  it("follows its maximum, and gives nothing out while more than that is taken", () => {
    let bytesMax = 100;
    const budget = createByteBudget(() => bytesMax);
    budget.take(100);
    bytesMax = 120;
    expect(budget.take(20)).toBe(true);
    bytesMax = 50;
    budget.give(80);
    expect(budget.take(11)).toBe(false);
    expect(budget.take(10)).toBe(true);
  });

  it("can give out again what was given back", () => {
    const budget = createByteBudget(() => 100);
    budget.take(100);
    budget.give(30);
    expect(budget.take(31)).toBe(false);
    expect(budget.take(30)).toBe(true);
  });
});
