import { describe, expect, it } from "vitest";
import { defaultLimits } from "../../../../src/contract/limits.js";
import { validateEmbeddings } from "../../../../src/domain/inference/embed.js";
import { embedding, outcome } from "./params.js";

const check = (changes: Parameters<typeof embedding>[0]): string =>
  outcome(() => validateEmbeddings(embedding(changes), defaultLimits));

describe("validateEmbeddings", () => {
  it("accepts 1 to 2,048 inputs, none of them empty (EMB-1)", () => {
    const inputs = (count: number): string[] => Array.from({ length: count }, () => "x");
    expect(check({ input: inputs(2_048) })).toBe("accepted");
    expect(check({ input: inputs(2_049) })).toBe("array_above_max_length input");
    expect(check({ input: [] })).toBe("missing_required_parameter input");
    expect(check({ input: [""] })).toBe("invalid_value input");
    expect(check({ input: ["a", ""] })).toBe("invalid_value input[1]");
  });

  it("inputs are texts or token ids, not both (EMB-1)", () => {
    expect(check({ inputTokens: [{ ids: [1] }] })).toBe("invalid_value input");
    expect(check({ input: [], inputTokens: [{ ids: [1] }] })).toBe("accepted");
    expect(check({ input: [], inputTokens: [{ ids: [] }] })).toBe("empty_array input[0]");
    expect(check({ input: [], inputTokens: [{ ids: [-5] }] })).toBe("integer_below_min_value input[0]");
  });

  it("dimensions is at least 1 (EMB-8)", () => {
    expect(check({ dimensions: 1 })).toBe("accepted");
    expect(check({ dimensions: 0 })).toBe("integer_below_min_value dimensions");
    expect(check({ dimensions: -1 })).toBe("integer_below_min_value dimensions");
  });

  it("user has a maximum length", () => {
    expect(check({ user: "u" })).toBe("accepted");
    expect(check({ user: "u".repeat(513) })).toBe("string_above_max_length user");
  });
});
