import { describe, expect, it } from "vitest";
import { toEmbedRequest } from "../../../../src/domain/inference/embed.js";
import { caps } from "../../../support/capabilities.js";
import { embedding, outcome, refusal } from "./params.js";

const build = (changes: Parameters<typeof embedding>[0], able: Parameters<typeof caps>[0] = {}) =>
  toEmbedRequest(embedding(changes), caps({ embeddingDims: 8, ...able }));
const check = (changes: Parameters<typeof embedding>[0], able: Parameters<typeof caps>[0] = {}): string =>
  outcome(() => build(changes, able));

describe("toEmbedRequest", () => {
  it("inputs keep their order (EMB-4)", () => {
    expect(build({ input: ["b", "a"] })).toEqual({ inputs: ["b", "a"] });
    expect(build({ input: [], inputTokens: [{ ids: [2] }, { ids: [1] }] })).toEqual({ inputs: [[2], [1]] });
  });

  it("token ids are rejected with a hint unless the model accepts them (EMB-2)", () => {
    const tokens = { input: [], inputTokens: [{ ids: [1] }] };
    expect(check(tokens, { tokenInput: false })).toBe("token_input_not_supported input");
    expect(refusal(() => build(tokens, { tokenInput: false }))?.message).toContain("check_embedding_ctx_length=False");
  });

  it("shorter vectors need a model that supports them; the model's own length is always valid (EMB-8)", () => {
    expect(build({ dimensions: 8 }, { shortenableEmbeddings: false })).toEqual({ inputs: ["a"] });
    expect(build({ dimensions: 4 }, { shortenableEmbeddings: true })).toEqual({ inputs: ["a"], dimensions: 4 });
    expect(check({ dimensions: 4 }, { shortenableEmbeddings: false })).toBe("unsupported_parameter dimensions");
    expect(check({ dimensions: 9 }, { shortenableEmbeddings: true })).toBe("integer_above_max_value dimensions");
  });
});
