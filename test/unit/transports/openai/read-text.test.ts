import { describe, expect, it } from "vitest";
import { defaultLimits } from "../../../../src/contract/limits.js";
import { parseJsonBody } from "../../../../src/transports/http/json-object.js";
import { completionFields, readCompletion } from "../../../../src/transports/openai/completions.js";
import { embeddingFields, readEmbedding } from "../../../../src/transports/openai/embeddings.js";
import { expectRefusal } from "./refusal.js";

const body = (fields: object) => parseJsonBody(Buffer.from(JSON.stringify({ model: "m", ...fields })), defaultLimits);
const completion = (fields: object) => readCompletion(body(fields));
const embedding = (fields: object) => readEmbedding(body(fields));

describe("completion request", () => {
  it.each([
    ["a", { prompt: ["a"], promptTokens: [] }],
    [["a", ""], { prompt: ["a", ""], promptTokens: [] }],
    [[1, 2], { prompt: [], promptTokens: [{ ids: [1, 2] }] }],
    [[[1], [2, 3]], { prompt: [], promptTokens: [{ ids: [1] }, { ids: [2, 3] }] }],
  ])("may have the prompt %j (CMPL-1, CMPL-2)", (prompt, expected) => {
    expect(completion({ prompt }).params).toMatchObject(expected);
  });

  it.each([
    ["prompt", null, "missing_required_parameter"],
    ["prompt", [], "empty_array"],
    ["prompt", 5, "invalid_type"],
    ["prompt[1]", ["a", 1], "invalid_type"],
    ["prompt[1]", [1, "a"], "invalid_type"],
    ["prompt[1]", [[1], 1], "invalid_type"],
    ["prompt[0][1]", [[1, 1.5]], "invalid_type"],
    ["prompt[0]", [2 ** 31], "integer_above_max_value"],
  ] as const)("%s of %j is rejected (CMPL-1)", (param, prompt, code) => {
    expectRefusal(() => completion({ prompt }), code, param);
  });

  it("has the sampling fields of chat and its own fields (CMPL-12)", () => {
    const { params, stream } = completion({
      prompt: "a",
      max_tokens: 0,
      temperature: 1.5,
      logprobs: 5,
      echo: true,
      best_of: 2,
      suffix: "end",
      stream: false,
    });
    expect(stream).toBe(false);
    expect(params).toMatchObject({ maxTokens: 0, temperature: 1.5, logprobs: 5, echo: true, bestOf: 2, suffix: "end" });
  });

  it("every optional field may be null (GEN-7)", () => {
    const nulls = Object.fromEntries([...completionFields].map((name) => [name, null]));
    expect(completion({ ...nulls, model: "m", prompt: "a" })).toEqual(completion({ prompt: "a" }));
  });
});

describe("embedding request", () => {
  it.each([
    ["a", { input: ["a"], inputTokens: [] }],
    [["a", "b"], { input: ["a", "b"], inputTokens: [] }],
    [[1, 2], { input: [], inputTokens: [{ ids: [1, 2] }] }],
    [[[1], [2]], { input: [], inputTokens: [{ ids: [1] }, { ids: [2] }] }],
  ])("may have the input %j (EMB-1)", (input, expected) => {
    expect(embedding({ input }).params).toMatchObject(expected);
  });

  it("is refused if the input is missing or an empty list (EMB-1)", () => {
    expectRefusal(() => embedding({}), "missing_required_parameter", "input");
    expectRefusal(() => embedding({ input: [] }), "empty_array", "input");
  });

  it("may have the encoding float, which is the default, or base64 (EMB-5, EMB-6)", () => {
    expect(embedding({ input: "a" }).encoding).toBe("float");
    expect(embedding({ input: "a", encoding_format: null }).encoding).toBe("float");
    expect(embedding({ input: "a", encoding_format: "base64" }).encoding).toBe("base64");
    expectRefusal(() => embedding({ input: "a", encoding_format: "int8" }), "invalid_value", "encoding_format");
  });

  it("every optional field may be null (GEN-7)", () => {
    const nulls = Object.fromEntries([...embeddingFields].map((name) => [name, null]));
    expect(embedding({ ...nulls, model: "m", input: "a" })).toEqual(embedding({ input: "a" }));
  });
});
