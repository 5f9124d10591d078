import { describe, expect, it } from "vitest";
import { Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { defaultLimits } from "../../../../src/contract/limits.js";
import { validateChatCompletion } from "../../../../src/domain/inference/validate-chat.js";
import { chat, outcome, refusal, says, text } from "./params.js";

const check = (changes: Parameters<typeof chat>[0]): string =>
  outcome(() => validateChatCompletion(chat(changes), defaultLimits));

describe("validateChatCompletion", () => {
  it("accepts the smallest request", () => {
    expect(check({})).toBe("accepted");
  });

  it("rejects a request without a model with the name of the field", () => {
    expect(check({ model: "" })).toBe("missing_required_parameter model");
  });

  it("accepts a temperature from 0 to 2 (CHAT-1)", () => {
    expect(check({ temperature: 0 })).toBe("accepted");
    expect(check({ temperature: 2 })).toBe("accepted");
    expect(check({ temperature: -0.01 })).toBe("decimal_below_min_value temperature");
    expect(check({ temperature: 2.01 })).toBe("decimal_above_max_value temperature");
  });

  it("accepts a top_p from 0 to 1, both included (CHAT-2)", () => {
    expect(check({ topP: 0 })).toBe("accepted");
    expect(check({ topP: 1.1 })).toBe("decimal_above_max_value top_p");
    expect(check({ topP: -1 })).toBe("decimal_below_min_value top_p");
  });

  it("accepts an n from 1 to the configured maximum (CHAT-3)", () => {
    expect(check({ n: 16 })).toBe("accepted");
    expect(check({ n: 0 })).toBe("integer_below_min_value n");
    expect(check({ n: 17 })).toBe("integer_above_max_value n");
  });

  it("rejects max_tokens and max_completion_tokens below 1 (CHAT-4, CHAT-5)", () => {
    expect(check({ maxTokens: 1, maxCompletionTokens: 2 })).toBe("accepted");
    expect(check({ maxTokens: 0 })).toBe("integer_below_min_value max_tokens");
    expect(check({ maxCompletionTokens: 0 })).toBe("integer_below_min_value max_completion_tokens");
  });

  it("allows four stop strings, not counting empty ones (CHAT-7)", () => {
    expect(check({ stop: ["a", "", "b", "c", "", "d"] })).toBe("accepted");
    expect(check({ stop: ["a", "b", "c", "d", "e"] })).toBe("array_above_max_length stop");
    expect(check({ stop: ["x".repeat(257)] })).toBe("string_above_max_length stop");
    expect(check({ stop: ["\ud83d"] })).toBe("invalid_value stop");
  });

  it("accepts penalties from -2 to 2 (CHAT-10)", () => {
    expect(check({ frequencyPenalty: -2, presencePenalty: 2 })).toBe("accepted");
    expect(check({ frequencyPenalty: -2.1 })).toBe("decimal_below_min_value frequency_penalty");
    expect(check({ presencePenalty: 2.1 })).toBe("decimal_above_max_value presence_penalty");
  });

  it("accepts a logit_bias of decimal token ids with values from -100 to 100, fractions included (CHAT-11)", () => {
    expect(check({ logitBias: { "5": -100, "6": 0.5 } })).toBe("accepted");
    for (const key of ["x", "-1", "1.5", "", "99999999999"]) {
      expect(check({ logitBias: { [key]: 1 } })).toBe("invalid_value logit_bias");
    }
    for (const bias of [101, -101, Number.NaN]) {
      expect(check({ logitBias: { "5": bias } })).toBe("invalid_value logit_bias");
    }
  });

  it("accepts a top_logprobs from 0 to 20, and only together with logprobs (CHAT-13)", () => {
    expect(check({ logprobs: true, topLogprobs: 20 })).toBe("accepted");
    expect(check({ logprobs: true, topLogprobs: 21 })).toBe("integer_above_max_value top_logprobs");
    expect(check({ logprobs: true, topLogprobs: -1 })).toBe("integer_below_min_value top_logprobs");
    expect(check({ topLogprobs: 3 })).toBe("invalid_value top_logprobs");
    expect(check({ logprobs: false, topLogprobs: 3 })).toBe("invalid_value top_logprobs");
  });

  it("ids of the end user have maximum lengths (CHAT-20)", () => {
    expect(check({ user: "u".repeat(512), safetyIdentifier: "s".repeat(64) })).toBe("accepted");
    expect(check({ user: "u".repeat(513) })).toBe("string_above_max_length user");
    expect(check({ safetyIdentifier: "s".repeat(65) })).toBe("string_above_max_length safety_identifier");
    expect(check({ promptCacheKey: "p".repeat(513) })).toBe("string_above_max_length prompt_cache_key");
  });

  it("metadata has at most 16 pairs of 64 and 512 characters (CHAT-21)", () => {
    const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, "v"]));
    expect(check({ metadata: pairs(16) })).toBe("accepted");
    expect(check({ metadata: pairs(17) })).toBe("invalid_value metadata");
    expect(check({ metadata: { ["k".repeat(65)]: "v" } })).toBe("string_above_max_length metadata");
    expect(check({ metadata: { k: "v".repeat(513) } })).toBe("string_above_max_length metadata");
  });

  it("store and any service tier are accepted (CHAT-22, CHAT-23)", () => {
    expect(check({ store: true, serviceTier: "flex" })).toBe("accepted");
    expect(check({ serviceTier: "anything" })).toBe("accepted");
  });

  it("rejects unknown values of reasoning_effort and verbosity with the list of valid values (CHAT-24, CHAT-25)", () => {
    expect(check({ reasoningEffort: "xhigh", verbosity: "low" })).toBe("accepted");
    expect(check({ reasoningEffort: "extreme" })).toBe("invalid_value reasoning_effort");
    expect(check({ verbosity: "loud" })).toBe("invalid_value verbosity");
    const error = refusal(() => validateChatCompletion(chat({ verbosity: "loud" }), defaultLimits));
    expect(error?.message).toContain("'low', 'medium', 'high'");
    expect(error?.message).toContain('"loud"');
  });

  it("accepts no modality but text (CHAT-26)", () => {
    expect(check({ modalities: ["text"] })).toBe("accepted");
    expect(check({ modalities: ["text", "audio"] })).toBe("unsupported_value modalities");
    expect(check({ modalities: ["smell"] })).toBe("invalid_value modalities");
  });

  it("rejects values of top_k, min_p and repetition_penalty outside their ranges (CHAT-28)", () => {
    expect(check({ topK: 0, minP: 0.05, repetitionPenalty: 1.1, chatTemplateKwargsJson: "{}" })).toBe("accepted");
    expect(check({ topK: -1 })).toBe("integer_below_min_value top_k");
    expect(check({ minP: 1.5 })).toBe("decimal_above_max_value min_p");
    expect(check({ repetitionPenalty: 0 })).toBe("decimal_below_min_value repetition_penalty");
    for (const json of ["[]", "null", "{", "3"]) {
      expect(check({ chatTemplateKwargsJson: json })).toBe("invalid_value chat_template_kwargs");
    }
  });

  it("json_schema needs a name of the characters allowed in function names (RF-2)", () => {
    const schema = (value: { name?: string; schemaJson?: string }) =>
      check({ responseFormat: { format: { case: "jsonSchema", value } } });
    expect(schema({ name: "response" })).toBe("accepted");
    expect(schema({})).toBe("missing_required_parameter response_format.json_schema.name");
    expect(schema({ name: "a b" })).toBe("invalid_value response_format.json_schema.name");
    expect(schema({ name: "n".repeat(65) })).toBe("invalid_value response_format.json_schema.name");
  });

  it("an unusable schema is rejected as invalid_json_schema (RF-4, SEC-10)", () => {
    const schema = (schemaJson: string) =>
      check({ responseFormat: { format: { case: "jsonSchema", value: { name: "r", schemaJson } } } });
    expect(schema('{"type":"object"}')).toBe("accepted");
    expect(schema('{"type":')).toBe("invalid_json_schema response_format");
    expect(schema("[]")).toBe("invalid_json_schema response_format");
    expect(schema(JSON.stringify({ description: "x".repeat(70_000) }))).toBe("invalid_json_schema response_format");
  });

  it("rejects an empty response format and an empty tool choice, which gRPC can send", () => {
    expect(check({ responseFormat: {} })).toBe("invalid_value response_format");
    expect(check({ toolChoice: {} })).toBe("invalid_value tool_choice");
  });

  it("the error message names the field, the expected and the given value (ERR-2)", () => {
    const error = refusal(() => validateChatCompletion(chat({ temperature: 2.5 }), defaultLimits));
    expect(error?.message).toContain("'temperature'");
    expect(error?.message).toContain("at most 2");
    expect(error?.message).toContain("2.5");
  });

  it("an error message does not quote words of the input by which client libraries classify errors (ERR-3)", () => {
    for (const words of ["rate limit", "Rate-Limit", "rate_limit", "maximum context length is 5 tokens"]) {
      const error = refusal(() => validateChatCompletion(chat({ reasoningEffort: words }), defaultLimits));
      expect(error?.code).toBe("invalid_value");
      expect(error?.message).not.toMatch(/rate.?limit|context.?length/i);
    }
  });

  it("validates 16 KiB of worst-case text in any field within the time limit of the test (SEC-13)", () => {
    const long = `${"a".repeat(8_192)}${" ".repeat(8_191)}!`;
    const requests = [
      chat({ model: long }),
      chat({ stop: [long] }),
      chat({ user: long }),
      chat({ reasoningEffort: long }),
      chat({ metadata: { [long]: long } }),
      chat({ tools: [{ function: { name: long } }] }),
      chat({ messages: [{ role: Role.USER, content: [text(long)], name: long }] }),
      chat({ messages: [{ role: Role.USER, content: [{ part: { case: "imageUrl", value: { url: long } } }] }] }),
    ];
    for (const request of requests) {
      refusal(() => validateChatCompletion(request, defaultLimits));
      const startedAt = performance.now();
      refusal(() => validateChatCompletion(request, defaultLimits));
      expect(performance.now() - startedAt).toBeLessThan(100);
    }
  });

  it("rejects a request without messages (MSG-13)", () => {
    expect(check({ messages: [] })).toBe("empty_array messages");
    expect(check({ messages: [says("")] })).toBe("accepted");
  });
});
