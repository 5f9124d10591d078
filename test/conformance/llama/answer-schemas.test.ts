import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ErrorCode } from "../../../src/contract/errors.js";
import { writeRandomGguf } from "../../support/gguf/random-gguf.js";
import { type LlamaService, startLlamaService } from "../../support/llama-service.js";
import { randomSchema } from "../../support/schemas/random-schema.js";
import { rounds } from "../../support/tier.js";
import { hermesTemplate } from "../../unit/engines/llama/text/templates.js";
import { type Api, createApi, expectError } from "../openai/api.js";
import { chatOf, createChatCompletion, streamChatCompletion } from "../rpc/chat-requests.js";
import { openWay, wayNames } from "../rpc/ways.js";
import { type ChatAnswer, streamedAnswer, streaming, wholeAnswer } from "./chat-answer.js";

const schemas = rounds(200);

let service: LlamaService;
let api: Api;

beforeAll(async () => {
  const settings = { contextLength: 8_192, slots: 2 };
  service = await startLlamaService([
    {
      id: "m",
      ...settings,
      write: (path) => writeRandomGguf(path, { ...settings, chatTemplate: hermesTemplate }),
    },
  ]);
  api = createApi(service);
}, 180_000);
afterAll(() => service.close());

const schemaFormat = (schema: object, strict: boolean) => ({
  response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict } },
});

const both = async (fields: object): Promise<readonly ChatAnswer[]> => {
  const asked = { model: "m", ...fields };
  return [wholeAnswer(await api.chat(asked)), streamedAnswer(await api.chat({ ...asked, ...streaming }))];
};

const tools = [{ type: "function", function: { name: "f", parameters: { type: "object" } } }];

const validator = (schema: object) =>
  new Ajv2020({ strict: false, validateFormats: false, ownProperties: true }).compile(schema);

describe("a JSON Schema for the answer", () => {
  it("constrains every answer, streamed or not, for random schemas (RF-3, RF-8)", {
    timeout: 120_000 + schemas * 15_000,
  }, async () => {
    for (let seed = 0; seed < schemas; seed++) {
      const { schema, longestBytes } = randomSchema(seed);
      const validate = validator(schema);
      for (const { content, finishReason } of await both({
        ...schemaFormat(schema, seed % 4 > 0),
        seed,
        max_tokens: longestBytes + 10,
      })) {
        expect([seed, finishReason]).toEqual([seed, "stop"]);
        expect([seed, content, validate(JSON.parse(content))]).toEqual([seed, content, true]);
        expect(content).toBe(content.trim());
      }
    }
    expect({ restarts: service.restarts("m"), processes: service.pids("m").length }).toEqual({
      restarts: 0,
      processes: 1,
    });
  });

  it("does not guarantee a valid answer if the token limit truncates it, which finishes with length (RF-3)", async () => {
    const schema = { type: "object", properties: { a: { type: "string", minLength: 50 } }, required: ["a"] };
    for (const answer of await both({ ...schemaFormat(schema, true), seed: 1, max_tokens: 5 })) {
      expect(answer).toMatchObject({ finishReason: "length", usage: { completion_tokens: 5 } });
    }
  });

  it.each([
    ["pattern", { type: "string", pattern: "^a+$" }],
    ["not", { not: { type: "string" } }],
    ["if", { if: { type: "string" }, else: { minLength: 1 } }],
    ["uniqueItems", { type: "array", uniqueItems: true }],
    ["multipleOf", { type: "number", multipleOf: 0.01 }],
    ["propertyNames", { type: "object", propertyNames: { pattern: "^a" } }],
    ["dependentRequired", { type: "object", dependentRequired: { a: ["b"] } }],
  ])(
    "that uses %s is rejected with the reason if it is strict, and enforced as far as possible otherwise (RF-4)",
    async (keyword, a) => {
      const schema = { type: "object", properties: { a }, required: ["a"], additionalProperties: false };
      const reply = await api.chat({ model: "m", ...schemaFormat(schema, true) });
      expectError(reply, 400, "invalid_json_schema", "response_format");
      expect(reply.json.error.message).toContain(`'${keyword}'`);
      const lenient = wholeAnswer(await api.chat({ model: "m", ...schemaFormat(schema, false), max_tokens: 20 }));
      expect(lenient.content).toMatch(/^\{/);
    },
  );
});

describe("json_object", () => {
  it("gives one JSON object without other text, while the default format is text (RF-1)", async () => {
    let finished = 0;
    for (let seed = 0; seed < rounds(50) + 5; seed++) {
      const asked = { response_format: { type: "json_object" }, seed, max_tokens: 600 };
      for (const { content, finishReason } of await both(asked)) {
        expect(content).toMatch(/^\{/);
        if (finishReason === "length") continue;
        finished++;
        const value: unknown = JSON.parse(content);
        expect(typeof value === "object" && value !== null && !Array.isArray(value)).toBe(true);
      }
    }
    expect(finished).toBeGreaterThan(0);
    const asked = { model: "m", seed: 3, temperature: 0, max_tokens: 12 };
    const plain = wholeAnswer(await api.chat(asked));
    expect(wholeAnswer(await api.chat({ ...asked, response_format: { type: "text" } })).content).toBe(plain.content);
  });
});

describe("constraints in the request fields of other inference servers", () => {
  const choices = ["yes", "no", "not sure"];
  const food = /^(?:Pizza|Pasta)$/;
  const code = /^[a-f]{3}-\d{2}$/;
  const list = 'root ::= item{2} end\nitem ::= "- " [a-z]{1,8} "\\n"\nend ::= "(" end ")" | "."';
  const listed = /^(?:- [a-z]{1,8}\n){2}\(*\.\)*$/;
  const schema = { type: "object", properties: { ok: { enum: ["yes", "no"] } }, required: ["ok"] };
  const isAnswer = (text: string): boolean => ["yes", "no"].includes(JSON.parse(text).ok);
  const cases: readonly (readonly [object, (text: string) => boolean])[] = [
    [{ guided_choice: choices }, (text) => choices.includes(text)],
    [{ structured_outputs: { choice: choices } }, (text) => choices.includes(text)],
    [{ structured_outputs: { regex: "(Pizza|Pasta)" } }, (text) => food.test(text)],
    [{ guided_regex: "^[a-f]{3}-\\d{2}$" }, (text) => code.test(text)],
    [{ grammar: list }, (text) => listed.test(text)],
    [{ guided_json: { ...schema, additionalProperties: false } }, isAnswer],
    [{ json_schema: JSON.stringify({ ...schema, additionalProperties: false }) }, isAnswer],
  ];

  it("are enforced in every chat, streamed or not, and in text completions (E-5, CHAT-30, RF-8)", async () => {
    for (const [fields, holds] of cases) {
      for (let seed = 0; seed < rounds(20); seed++) {
        const asked = { ...fields, seed, max_tokens: 400 };
        const answers = await both(asked);
        const completion = await api.completion({ model: "m", prompt: "Hi", ...asked });
        const texts = [...answers.map(({ content }) => content), completion.json.choices[0].text];
        expect([fields, texts, texts.map(holds)]).toEqual([fields, texts, [true, true, true]]);
        expect(answers.map(({ finishReason }) => finishReason)).toEqual(["stop", "stop"]);
      }
    }
  });

  it.each(wayNames)("are enforced on %s (E-5, CHAT-30)", async (name) => {
    const way = openWay(name, service);
    const request = chatOf("m", { passThroughJson: { guided_choice: JSON.stringify(choices) } });
    const whole = await way.call(createChatCompletion, request);
    expect(choices).toContain(whole.messages[0]?.completion?.choices[0]?.message?.content);
    const streamed = await way.call(streamChatCompletion, request);
    const deltas = streamed.messages.flatMap(
      ({ chunk }) => chunk?.choices.map(({ delta }) => delta?.content ?? "") ?? [],
    );
    expect(choices).toContain(deltas.join(""));
    way.close();
  });

  it.each<[object, string, ErrorCode, string]>([
    [{ guided_regex: "(?=a)a" }, "guided_regex", "invalid_value", "look-around"],
    [{ structured_outputs: { regex: "(a" } }, "structured_outputs.regex", "invalid_value", "not closed"],
    [{ guided_grammar: "start: /x/" }, "guided_grammar", "invalid_value", "Lark"],
    [{ guided_json: { type: "string", pattern: "^a" } }, "guided_json", "invalid_json_schema", "'pattern'"],
    [{ guided_choice: choices, min_tokens: 3 }, "min_tokens", "unsupported_parameter", "required form"],
    [{ guided_choice: choices, tools }, "guided_choice", "unsupported_parameter", "'tools'"],
    [{ prompt_logprobs: 1 }, "prompt_logprobs", "unsupported_parameter", "'m'"],
  ])(
    "that cannot be enforced are rejected with the field and the reason: %j (E-5, CHAT-30)",
    async (fields, param, code, why) => {
      const reply = await api.chat({ model: "m", ...fields });
      expectError(reply, 400, code, param);
      expect(reply.json.error.message).toContain(why);
    },
  );
});

describe("tools together with a response format", () => {
  it("let the model call a tool or answer under the schema (RF-6)", { timeout: 120_000 }, async () => {
    const parameters = {
      type: "object",
      properties: { on: { type: "boolean" } },
      required: ["on"],
      additionalProperties: false,
    };
    const schema = { type: "object", properties: { ok: { enum: ["yes", "no"] } }, required: ["ok"] };
    const strictSchema = { ...schema, additionalProperties: false };
    const tools = [{ type: "function", function: { name: "turn", parameters, strict: true } }];
    const callIsValid = validator(parameters);
    const textIsValid = validator(strictSchema);
    const seen = new Set<string>();
    for (let seed = 0; seed < 20; seed++) {
      const asked = { tools, ...schemaFormat(strictSchema, true), seed, max_tokens: 1_500 };
      for (const { calls, content, finishReason } of await both(asked)) {
        seen.add(finishReason);
        for (const call of calls) expect(callIsValid(JSON.parse(call.arguments))).toBe(true);
        expect(finishReason).toBe(calls.length > 0 ? "tool_calls" : "stop");
        if (calls.length === 0) expect([content, textIsValid(JSON.parse(content))]).toEqual([content, true]);
        else expect(content).toBe("");
      }
    }
    expect([...seen].sort()).toEqual(["stop", "tool_calls"]);
  });
});
