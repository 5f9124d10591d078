import { describe, expect, it } from "vitest";
import { toCompletionRequests } from "../../../../src/domain/inference/completion.js";
import { caps } from "../../../support/capabilities.js";
import { completion, outcome, refusal } from "./params.js";

const build = (changes: Parameters<typeof completion>[0] = {}, able: Parameters<typeof caps>[0] = {}) =>
  toCompletionRequests(completion(changes), caps(able), null);
const check = (changes: Parameters<typeof completion>[0], able: Parameters<typeof caps>[0] = {}): string =>
  outcome(() => build(changes, able));

describe("toCompletionRequests", () => {
  it("builds one request per prompt, in order (CMPL-3)", () => {
    const requests = build({ prompt: ["a", "b"], n: 2, temperature: 0 });
    expect(requests.map((request) => request.input)).toEqual([{ prompt: "a" }, { prompt: "b" }]);
    expect(requests.map((request) => [request.n, request.temperature])).toEqual([
      [2, 0],
      [2, 0],
    ]);
  });

  it("uses the defaults of the model for fields that the client does not set, but never its system message", () => {
    const unset = { temperature: null, minP: null, repetitionPenalty: null };
    const defaults = { ...unset, topP: 0.5, maxTokens: 9, stop: ["END"], system: "Be brief." };
    const [request] = toCompletionRequests(completion({ prompt: ["a"], maxTokens: 3 }), caps(), defaults);
    expect(request).toMatchObject({ topP: 0.5, maxTokens: 3, stop: ["END"], input: { prompt: "a" } });
    expect(request).not.toHaveProperty("temperature");
  });

  it("a list of token ids is one prompt (CMPL-2)", () => {
    expect(build({ prompt: [], promptTokens: [{ ids: [1, 2] }] }).map((request) => request.input)).toEqual([
      { prompt: [1, 2] },
    ]);
  });

  it("token ids need a model that accepts them (EMB-2)", () => {
    expect(check({ prompt: [], promptTokens: [{ ids: [1] }] }, { tokenInput: false })).toBe(
      "token_input_not_supported prompt",
    );
  });

  it("the error for token ids names the client setting for completions, not the one for embeddings (E-8)", () => {
    const error = refusal(() => build({ prompt: [], promptTokens: [{ ids: [1] }] }, { tokenInput: false }));
    expect(error?.message).toContain("tokenized_requests=False");
    expect(error?.message).not.toContain("check_embedding_ctx_length");
  });

  it("logprobs and echo reach an engine that supports them (CMPL-7, CMPL-8)", () => {
    expect(build({ logprobs: 0, echo: true })[0]).toMatchObject({ logprobs: 0, echo: true });
    expect(build({})[0]).not.toHaveProperty("logprobs");
    expect(check({ logprobs: 0 }, { logprobs: 0 })).toBe("unsupported_parameter logprobs");
    expect(check({ logprobs: 5 }, { logprobs: 3 })).toBe("unsupported_value logprobs");
    expect(check({ logprobs: 1, echo: true }, { echoLogprobs: false })).toBe("unsupported_value logprobs");
  });

  it("a suffix is rejected, not silently dropped (CMPL-11)", () => {
    expect(check({ suffix: "end" })).toBe("unsupported_parameter suffix");
    expect(check({ suffix: "" })).toBe("accepted");
  });

  it("a max_tokens of 0 stays 0; without max_tokens the engine may fill the rest of the context (CMPL-12)", () => {
    expect(build({ maxTokens: 0, echo: true })[0]?.maxTokens).toBe(0);
    expect(build({})[0]?.maxTokens).toBeNull();
  });
});
