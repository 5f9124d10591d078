import { describe, expect, it } from "vitest";
import { defaultLimits } from "../../../../src/contract/limits.js";
import { validateCompletion } from "../../../../src/domain/inference/completion.js";
import { completion, outcome } from "./params.js";

const check = (changes: Parameters<typeof completion>[0]): string =>
  outcome(() => validateCompletion(completion(changes), defaultLimits));

describe("validateCompletion", () => {
  it("requires a prompt, either as text or as token ids (CMPL-1)", () => {
    expect(check({})).toBe("accepted");
    expect(check({ prompt: [""] })).toBe("accepted");
    expect(check({ prompt: [], promptTokens: [{ ids: [1, 2] }] })).toBe("accepted");
    expect(check({ prompt: [] })).toBe("missing_required_parameter prompt");
    expect(check({ promptTokens: [{ ids: [1] }] })).toBe("invalid_value prompt");
    expect(check({ model: "" })).toBe("missing_required_parameter model");
  });

  it("token ids are 0 or more, and a list of them is not empty (CMPL-2)", () => {
    expect(check({ prompt: [], promptTokens: [{ ids: [0] }, { ids: [] }] })).toBe("empty_array prompt[1]");
    expect(check({ prompt: [], promptTokens: [{ ids: [0, -1] }] })).toBe("integer_below_min_value prompt[0]");
  });

  it("rejects requests whose number of prompts times n is above 128 (CMPL-3, SEC-8)", () => {
    const prompts = (count: number): string[] => Array.from({ length: count }, () => "x");
    expect(check({ prompt: prompts(128) })).toBe("accepted");
    expect(check({ prompt: prompts(8), n: 16 })).toBe("accepted");
    expect(check({ prompt: prompts(129) })).toBe("array_above_max_length prompt");
    expect(check({ prompt: prompts(9), n: 16 })).toBe("integer_above_max_value n");
  });

  it("accepts a logprobs from 0 to 5 (CMPL-7)", () => {
    expect(check({ logprobs: 5 })).toBe("accepted");
    expect(check({ logprobs: 6 })).toBe("integer_above_max_value logprobs");
    expect(check({ logprobs: -1 })).toBe("integer_below_min_value logprobs");
  });

  it("best_of accepts only values without effect (CMPL-10)", () => {
    expect(check({ bestOf: 1 })).toBe("accepted");
    expect(check({ n: 3, bestOf: 3 })).toBe("accepted");
    expect(check({ bestOf: 2 })).toBe("unsupported_parameter best_of");
    expect(check({ bestOf: 0 })).toBe("unsupported_parameter best_of");
    expect(check({ bestOf: 21 })).toBe("integer_above_max_value best_of");
    expect(check({ bestOf: -1 })).toBe("integer_below_min_value best_of");
  });

  it("accepts a max_tokens of 0 only with echo (CMPL-8, CMPL-12)", () => {
    expect(check({ maxTokens: 1 })).toBe("accepted");
    expect(check({ maxTokens: 0, echo: true })).toBe("accepted");
    expect(check({ maxTokens: 0 })).toBe("integer_below_min_value max_tokens");
    expect(check({ maxTokens: -1, echo: true })).toBe("integer_below_min_value max_tokens");
  });

  it("sampling parameters have the same ranges as for chats (CMPL-12)", () => {
    expect(check({ temperature: 3 })).toBe("decimal_above_max_value temperature");
    expect(check({ stop: ["a", "b", "c", "d", "e"] })).toBe("array_above_max_length stop");
    expect(check({ logitBias: { x: 1 } })).toBe("invalid_value logit_bias");
    expect(check({ user: "u".repeat(513) })).toBe("string_above_max_length user");
  });
});
