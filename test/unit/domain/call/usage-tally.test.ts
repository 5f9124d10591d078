import { describe, expect, it } from "vitest";
import { UsageTally } from "../../../../src/domain/call/live-requests.js";

describe("UsageTally", () => {
  it("counts the prompt once and sums the choices (CHAT-3)", () => {
    const tally = new UsageTally();
    tally.prompt(0, 7, 2);
    tally.produced(0, 3);
    tally.produced(0, 5);
    tally.produced(1, 4);
    expect(tally.total()).toEqual({ promptTokens: 7, cachedTokens: 2, completionTokens: 9, reasoningTokens: 0 });
  });

  it("counts every prompt of a batch once, whatever its choices (CMPL-13)", () => {
    const tally = new UsageTally();
    tally.prompt(0, 3, 0);
    tally.prompt(2, 4, 0);
    for (const choice of [0, 1, 2, 3]) tally.produced(choice, 10);
    expect(tally.total()).toMatchObject({ promptTokens: 7, completionTokens: 40 });
  });

  it("replaces the counts during a run by the engine's final counts", () => {
    const tally = new UsageTally();
    tally.produced(0, 3);
    tally.produced(1, 3);
    tally.produced(2, 1);
    tally.close(0, 2, 8);
    tally.prompt(0, 5, 0, 2);
    expect(tally.total()).toEqual({ promptTokens: 5, cachedTokens: 0, completionTokens: 9, reasoningTokens: 2 });
  });
});
