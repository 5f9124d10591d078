import { describe, expect, it } from "vitest";
import { EngineError, type GenerateRequest } from "../../../../src/domain/engine/engine.js";
import type { TextFormat } from "../../../../src/domain/engine/text-format.js";
import { type UpstreamKind, upstreamKinds } from "../../../../src/domain/engine/upstream.js";
import { capabilitiesOf, kindProfiles, passedFieldsOf } from "../../../../src/engines/openai/protocol/kinds.js";
import { generateBody } from "../../../../src/engines/openai/protocol/request-body.js";
import { chatRequest, completionRequest } from "../../../support/upstream/engine-calls.js";

function body(request: GenerateRequest, kind: UpstreamKind) {
  const { dialect } = kindProfiles[kind];
  return JSON.parse(generateBody(request, { model: "m", dialect, passThrough: passedFieldsOf(kind) }));
}

const choice: TextFormat = { type: "choice", choices: ["a|b", 'c"\n', "é"] };
const regex: TextFormat = { type: "regex", regex: "[a-z]+\\d" };
const grammar: TextFormat = { type: "grammar", grammar: 'root ::= "a"' };
const json: TextFormat = { type: "json_schema", name: "answer", schemaJson: '{"type":"object"}', strict: true };

describe("constraints in the fields of upstream servers", () => {
  it.each([
    ["vllm", choice, { structured_outputs: { choice: ["a|b", 'c"\n', "é"] } }],
    ["vllm", regex, { structured_outputs: { regex: "[a-z]+\\d" } }],
    ["vllm", grammar, { structured_outputs: { grammar: 'root ::= "a"' } }],
    ["sglang", choice, { regex: '(?:a\\|b|c"\n|é)' }],
    ["sglang", regex, { regex: "[a-z]+\\d" }],
    ["sglang", grammar, { ebnf: 'root ::= "a"' }],
    ["llama-server", choice, { grammar: 'root ::= "a|b" | "c\\U00000022\\U0000000a" | "\\U000000e9"\n' }],
    ["llama-server", grammar, { grammar: 'root ::= "a"' }],
  ] as const)("%s is sent the constraint %j in its own fields", (kind, format, fields) => {
    expect(body(chatRequest({ format }), kind)).toMatchObject(fields);
    expect(body(completionRequest({ format }), kind)).toMatchObject(fields);
    expect(body(chatRequest({ format }), kind)).not.toHaveProperty("response_format");
  });

  it("JSON is sent as `response_format` in a chat and in the server's own field in a text completion", () => {
    for (const kind of upstreamKinds) {
      if (kindProfiles[kind].api === "messages") continue;
      expect(body(chatRequest({ format: json }), kind)).toMatchObject({ response_format: { type: "json_schema" } });
    }
    const completed = (kind: UpstreamKind, format: TextFormat) => body(completionRequest({ format }), kind);
    expect(completed("vllm", json)).toMatchObject({ structured_outputs: { json: { type: "object" } } });
    expect(completed("vllm", { type: "json_object" })).toMatchObject({ structured_outputs: { json_object: true } });
    expect(completed("sglang", json)).toMatchObject({ json_schema: '{"type":"object"}' });
    expect(completed("sglang", { type: "json_object" })).toMatchObject({ json_schema: '{"type":"object"}' });
    expect(completed("llama-server", json)).toMatchObject({ json_schema: { type: "object" } });
    expect(completed("llama-server", { type: "json_object" })).toMatchObject({ json_schema: { type: "object" } });
  });

  it("a constraint for which the server has no field is rejected without a request", () => {
    for (const [kind, format] of [
      ["openai", choice],
      ["llama-server", regex],
      ["generic", json],
    ] as const) {
      expect(() => body(completionRequest({ format }), kind)).toThrow(EngineError);
    }
  });

  it("lengths and fields that only the server understands are sent unchanged (E-5)", () => {
    const fieldsJson = { bad_words: '["x"]', truncate_prompt_tokens: "9", own_field: "1" };
    expect(body(chatRequest({ minTokens: 2, ignoreEos: true, passOn: { fieldsJson } }), "vllm")).toMatchObject({
      min_tokens: 2,
      ignore_eos: true,
      bad_words: ["x"],
      truncate_prompt_tokens: 9,
    });
    const sent = body(chatRequest({ passOn: { fieldsJson } }), "generic");
    for (const name of Object.keys(fieldsJson)) expect(sent).not.toHaveProperty(name);
  });

  it("the capabilities of a deployment list the constraints that it enforces and the fields that it passes on (E-5)", () => {
    const facts = { model: "m", contextLength: null, embeddingDims: null, images: null, capabilities: null };
    const of = (kind: UpstreamKind) => capabilitiesOf(kind, { ...facts, passThrough: ["own_field"] });
    expect(of("openai").constraints).toBeUndefined();
    expect([...(of("openai").passedFields ?? [])]).toEqual(["own_field"]);
    expect(of("vllm").constraints).toContain("min_tokens");
    expect(of("llama-server").constraints).not.toContain("regex");
    expect(of("vllm").passedFields?.has("bad_words")).toBe(true);
    expect(of("vllm").passedFields?.has("prompt_logprobs")).toBe(false);
  });
});
