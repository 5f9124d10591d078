import { describe, expect, it } from "vitest";
import type { Capabilities } from "../../../../src/domain/engine/engine.js";
import { toChatRequest } from "../../../../src/domain/inference/chat-request.js";
import { toCompletionRequests } from "../../../../src/domain/inference/completion.js";
import { constraintFields } from "../../../../src/domain/inference/constraints.js";
import { caps } from "../../../support/capabilities.js";
import { chat, completion, outcome, refusal } from "./params.js";

const able: Partial<Capabilities> = { constraints: ["choice", "regex", "grammar", "min_tokens", "ignore_eos"] };

const asJson = (fields: object): Record<string, string> =>
  Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, JSON.stringify(value)]));
const build = (fields: object, can: Partial<Capabilities> = able, more: Parameters<typeof chat>[0] = {}) =>
  toChatRequest(chat({ ...more, passThroughJson: asJson(fields) }), caps(can), null);
const check = (fields: object, can: Partial<Capabilities> = able, more: Parameters<typeof chat>[0] = {}): string =>
  outcome(() => build(fields, can, more));

const schema = { type: "object", properties: { a: { type: "integer" } } };
const jsonOf = (param: string) => ({
  type: "json_schema",
  name: "answer",
  schemaJson: JSON.stringify(schema),
  strict: true,
  param,
});

describe("constraints of other servers", () => {
  it.each([
    ["guided_json", schema, jsonOf("guided_json")],
    ["guided_json", JSON.stringify(schema), jsonOf("guided_json")],
    ["json_schema", schema, jsonOf("json_schema")],
    ["structured_outputs", { json: schema, disable_fallback: true, regex: null }, jsonOf("structured_outputs.json")],
    ["structured_outputs", { json_object: true }, { type: "json_object", param: "structured_outputs.json_object" }],
    ["guided_choice", ["a", ""], { type: "choice", choices: ["a", ""], param: "guided_choice" }],
    ["structured_outputs", { choice: ["a"] }, { type: "choice", choices: ["a"], param: "structured_outputs.choice" }],
    ["guided_regex", "a+", { type: "regex", regex: "a+", param: "guided_regex" }],
    ["regex", "a+", { type: "regex", regex: "a+", param: "regex" }],
    ["guided_grammar", 'root ::= "a"', { type: "grammar", grammar: 'root ::= "a"', param: "guided_grammar" }],
    ["grammar", 'root ::= "a"', { type: "grammar", grammar: 'root ::= "a"', param: "grammar" }],
    ["ebnf", 'root ::= "a"', { type: "grammar", grammar: 'root ::= "a"', param: "ebnf" }],
  ])("%s %j becomes the format of a chat and of a text completion (E-5, CHAT-30)", (name, value, format) => {
    expect(build({ [name]: value }).format).toEqual(format);
    const params = completion({ passThroughJson: asJson({ [name]: value }) });
    expect(toCompletionRequests(params, caps(able), null)[0]?.format).toEqual(format);
  });

  it("min_tokens and ignore_eos reach the engine, within the limit of output tokens (E-5, CHAT-30)", () => {
    expect(build({ min_tokens: 3, ignore_eos: true }, able, { maxTokens: 3 })).toMatchObject({
      minTokens: 3,
      ignoreEos: true,
    });
    expect(check({ min_tokens: 4 }, able, { maxTokens: 3 })).toBe("integer_above_max_value min_tokens");
    expect(check({ min_tokens: -1 })).toBe("integer_below_min_value min_tokens");
    expect(check({ min_tokens: "4" })).toBe("invalid_type min_tokens");
    expect(check({ ignore_eos: 1 })).toBe("invalid_type ignore_eos");
  });

  it.each([...constraintFields.keys(), "guided_whitespace_pattern"])(
    "%s is rejected if neither the engine nor its upstream server supports it (E-5, CHAT-30)",
    (name) => {
      const values: Readonly<Record<string, unknown>> = {
        structured_outputs: { choice: ["a"] },
        guided_choice: ["a"],
        guided_json: schema,
        json_schema: schema,
        min_tokens: 2,
        ignore_eos: true,
        add_generation_prompt: false,
        skip_special_tokens: false,
      };
      const fields = { [name]: values[name] ?? "x" };
      const unable = { constraints: [], jsonSchema: "none" } as const;
      const param = name === "structured_outputs" ? "structured_outputs.choice" : name;
      expect(check(fields, unable)).toBe(`unsupported_parameter ${param}`);
      expect(refusal(() => build(fields, unable))?.message).toContain(`'${param}'`);
      // If the field is passed on, the upstream server applies or rejects it.
      const passing = { ...unable, passedFields: new Set([name]) };
      expect(build(fields, passing)).toMatchObject({ passOn: { fieldsJson: asJson(fields) } });
      expect(build(fields, passing)).not.toHaveProperty("format");
    },
  );

  it("a field with its default value is ignored, because clients send every field with its default (CHAT-30)", () => {
    const neutral = [
      { guided_json: null, guided_regex: "", grammar: "", bad_words: [], stop_token_ids: [], min_tokens: 0 },
      { ignore_eos: false, add_generation_prompt: true, skip_special_tokens: true, prompt_logprobs: null },
      { continue_final_message: false, structured_outputs: null, something_else: { a: 1 } },
    ];
    for (const fields of neutral) expect(check(fields, {})).toBe("accepted");
    expect(check({ prompt_logprobs: 0 }, {})).toBe("unsupported_parameter prompt_logprobs");
  });

  it("two constraints for the form of one answer are rejected (CHAT-30)", () => {
    expect(check({ guided_regex: "a", guided_choice: ["a"] })).toBe("invalid_value guided_choice");
    expect(check({ structured_outputs: { regex: "a", choice: ["a"] } })).toBe(
      "invalid_value structured_outputs.choice",
    );
    const passing = { ...able, passedFields: new Set(["structured_outputs"]) };
    expect(check({ structured_outputs: { regex: "a" }, guided_choice: ["a"] }, passing)).toBe(
      "invalid_value guided_choice",
    );
    const responseFormat = { format: { case: "jsonObject", value: {} } } as const;
    expect(check({ grammar: "x" }, able, { responseFormat })).toBe("invalid_value grammar");
  });

  it.each([
    [{ structured_outputs: {} }, "invalid_value structured_outputs"],
    [{ structured_outputs: "a" }, "invalid_type structured_outputs"],
    [
      { structured_outputs: { json: schema, whitespace_pattern: " " } },
      "unsupported_parameter structured_outputs.whitespace_pattern",
    ],
    [{ structured_outputs: { structural_tag: "{}" } }, "unsupported_parameter structured_outputs.structural_tag"],
    [{ guided_choice: [] }, "empty_array guided_choice"],
    [{ guided_choice: "a" }, "invalid_type guided_choice"],
    [{ guided_choice: ["a", 1] }, "invalid_type guided_choice[1]"],
    [{ guided_choice: ["a\u0000"] }, "invalid_value guided_choice[0]"],
    [{ guided_choice: Array.from({ length: 1_001 }, String) }, "array_above_max_length guided_choice"],
    [{ guided_choice: ["a".repeat(40_000), "b".repeat(40_000)] }, "string_above_max_length guided_choice"],
    [{ guided_regex: ["a"] }, "invalid_type guided_regex"],
    [{ guided_regex: "a".repeat(65_537) }, "string_above_max_length guided_regex"],
    [{ grammar: "\ud800" }, "invalid_value grammar"],
    [{ guided_json: "{" }, "invalid_json_schema guided_json"],
    [{ guided_json: 5 }, "invalid_type guided_json"],
    [{ guided_json: { $ref: "http://a" } }, "invalid_json_schema guided_json"],
  ])("an invalid value is rejected with the name of its field: %.80j", (fields, expected) => {
    expect(check(fields)).toBe(expected);
  });

  it("a value that is not JSON, which only an RPC can send, is rejected", () => {
    const params = chat({ passThroughJson: { guided_regex: "a+" } });
    expect(outcome(() => toChatRequest(params, caps(able), null))).toBe("invalid_value guided_regex");
  });

  it("text completions accept JSON formats only if the engine has grammars (CHAT-30)", () => {
    const params = completion({ passThroughJson: asJson({ guided_json: schema }) });
    const without = caps({ constraints: [] });
    expect(outcome(() => toCompletionRequests(params, without, null))).toBe("unsupported_parameter guided_json");
  });
});
