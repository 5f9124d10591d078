import { describe, expect, it } from "vitest";
import { costNano, pricesAt } from "../../../../src/domain/catalog/prices.js";

const list = [
  { fromMs: 0, input: 10, cachedInput: 1, output: 20 },
  { fromMs: 1_000, input: 30, cachedInput: 3, output: 60 },
];

describe("prices", () => {
  it("prompt, cached prompt and generated tokens have their own integer prices (USE-8)", () => {
    const usage = { promptTokens: 100, cachedTokens: 40, completionTokens: 7 };
    expect(costNano({ input: 10, cachedInput: 1, output: 20 }, usage)).toBe(60 * 10 + 40 + 7 * 20);
  });

  it("a price applies from its start time (USE-8)", () => {
    expect(pricesAt(list, 999).input).toBe(10);
    expect(pricesAt(list, 1_000).input).toBe(30);
    expect(pricesAt([], 5).output).toBe(0);
  });

  it("never counts more cached tokens than prompt tokens", () => {
    const usage = { promptTokens: 10, cachedTokens: 50, completionTokens: 0 };
    expect(costNano({ input: 10, cachedInput: 1, output: 0 }, usage)).toBe(10);
  });
});
