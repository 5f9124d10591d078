import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeRandomGguf } from "../../support/gguf/random-gguf.js";
import { type LlamaService, startLlamaService } from "../../support/llama-service.js";
import { randomSchema } from "../../support/schemas/random-schema.js";
import { rounds } from "../../support/tier.js";
import { hermesTemplate } from "../../unit/engines/llama/text/templates.js";
import { type Api, createApi, expectError } from "../openai/api.js";
import { type ChatAnswer, streamedAnswer, streaming, wholeAnswer } from "./chat-answer.js";

/** A model whose template does not support tools, and a model whose template does. */
const models = ["plain", "hermes"];
const schemas = rounds(200);
const callsMax = 16;
/** Length of the text around a call's arguments: markers, name and separators. */
const wrapperBytes = 120;
/** The token of a single byte has the byte as its id. */
const lineFeed = 10;

interface Tool {
  readonly name: string;
  readonly definition: object;
  readonly longestBytes: number;
  readonly validate: (value: unknown) => boolean;
}

function randomTool(seed: number): Tool {
  const { schema, longestBytes } = randomSchema(seed, 600);
  const name = `tool_${seed}`;
  return {
    name,
    definition: { type: "function", function: { name, parameters: schema, strict: seed % 3 > 0 } },
    longestBytes,
    validate: new Ajv2020({ strict: false, validateFormats: false, ownProperties: true }).compile(schema),
  };
}

/** Token limit that the longest answer cannot exceed: a token has at least one byte. */
function roomFor(tools: readonly Tool[], calls: number): number {
  return calls * (Math.max(...tools.map(({ longestBytes }) => longestBytes)) + wrapperBytes);
}

let service: LlamaService;
let api: Api;

beforeAll(async () => {
  const settings = { contextLength: 16_384, slots: 2 };
  service = await startLlamaService([
    { id: "plain", ...settings, write: (path) => writeRandomGguf(path, settings) },
    {
      id: "hermes",
      ...settings,
      write: (path) => writeRandomGguf(path, { ...settings, chatTemplate: hermesTemplate }),
    },
  ]);
  api = createApi(service);
}, 180_000);
afterAll(() => service.close());

/** The streamed and the unstreamed answer to one request; both must have the same finish reason. */
async function answers(fields: object): Promise<readonly ChatAnswer[]> {
  const whole = wholeAnswer(await api.chat(fields));
  const streamed = streamedAnswer(await api.chat({ ...fields, ...streaming }));
  expect(streamed.finishReason).toBe(whole.finishReason);
  return [whole, streamed];
}

function expectCalls({ calls, finishReason, content }: ChatAnswer, tools: readonly Tool[], seed: number): void {
  expect({ seed, finishReason, content }).toEqual({ seed, finishReason: "tool_calls", content: "" });
  expect(calls.length).toBeGreaterThanOrEqual(1);
  expect(calls.length).toBeLessThanOrEqual(callsMax);
  expect(new Set(calls.map(({ id }) => id)).size).toBe(calls.length);
  for (const { name, arguments: text } of calls) {
    const tool = tools.find((offered) => offered.name === name);
    expect([seed, text, tool?.validate(JSON.parse(text))]).toEqual([seed, text, true]);
  }
}

describe("a forced call of a model with random weights", () => {
  it("is produced with arguments that satisfy the tool's schema, streamed or not, for random schemas (TOOL-5, TOOL-10)", {
    timeout: 120_000 + schemas * 20_000,
  }, async () => {
    for (let seed = 0; seed < schemas; seed++) {
      const tools = [randomTool(seed), randomTool(seed + 10_000)];
      const [first] = tools;
      const asked = { model: models[seed % 2], seed, tools: tools.map(({ definition }) => definition) };
      const choice = { type: "function", function: { name: first?.name } };
      const [required, named] = await Promise.all([
        answers({ ...asked, tool_choice: "required", max_tokens: roomFor(tools, callsMax) }),
        answers({ ...asked, tool_choice: choice, max_tokens: roomFor(tools, 1) }),
      ]);
      for (const answer of required) expectCalls(answer, tools, seed);
      for (const answer of named) {
        expectCalls(answer, tools, seed);
        expect(answer.calls.map(({ name }) => name)).toEqual([first?.name]);
      }
    }
    for (const model of models) {
      expect({ restarts: service.restarts(model), processes: service.pids(model).length }).toEqual({
        restarts: 0,
        processes: 1,
      });
    }
  });

  it("is one of up to 16, but the only one without parallel calls or tools in the template (TOOL-9)", async () => {
    const empty = { type: "object", properties: {}, additionalProperties: false };
    const word = { type: "string", minLength: 8, maxLength: 8 };
    const distinct = { type: "object", properties: { word }, required: ["word"], additionalProperties: false };
    // The bias makes a model that never stops: it produces a line feed wherever possible, then another call.
    const eager = { tool_choice: "required", logit_bias: { [lineFeed]: 100 }, max_tokens: 4_000 };
    for (const model of models) {
      const counts = async (parameters: object, parallel: boolean): Promise<readonly number[]> => {
        const tools = [{ type: "function", function: { name: "go", parameters } }];
        const both = await answers({ model, ...eager, tools, parallel_tool_calls: parallel, seed: 1 });
        for (const { finishReason } of both) expect(finishReason).toBe("tool_calls");
        return both.map(({ calls }) => calls.length);
      };
      expect(await counts(distinct, false)).toEqual([1, 1]);
      const most = model === "plain" ? 1 : callsMax;
      expect(await counts(distinct, true)).toEqual([most, most]);
      // A call that repeats an earlier one ends the answer.
      expect(await counts(empty, true)).toEqual([1, 1]);
    }
  });

  it("of an unknown function is rejected (TOOL-5)", async () => {
    const { definition } = randomTool(1);
    const tool_choice = { type: "function", function: { name: "tool_2" } };
    const reply = await api.chat({ model: "plain", tools: [definition], tool_choice });
    expect([reply.status, reply.json.error.param]).toEqual([400, "tool_choice"]);
  });

  it("is truncated by the token limit like any answer and finishes with length (TOOL-15)", async () => {
    const { definition } = randomTool(4);
    const cut = await answers({
      model: "hermes",
      seed: 4,
      tools: [definition],
      tool_choice: "required",
      max_tokens: 30,
    });
    for (const { finishReason } of cut) expect(finishReason).toBe("length");
  });
});

describe("the tool choice none", () => {
  it("never gives a tool call, even if the model generates the text of one (TOOL-4)", async () => {
    for (let seed = 0; seed < rounds(50); seed++) {
      const tools = [randomTool(seed).definition];
      const asked = { model: models[seed % 2], seed, tools, tool_choice: "none", max_tokens: 20 };
      for (const { calls, finishReason } of await answers(asked)) {
        expect(calls).toEqual([]);
        expect(finishReason).not.toBe("tool_calls");
      }
    }
  });
});

describe("a tool whose schema cannot be enforced", () => {
  const unenforceable: readonly (readonly [keyword: string, schema: object])[] = [
    ["pattern", { type: "string", pattern: "^a+$" }],
    ["patternProperties", { type: "object", patternProperties: { "^a": true } }],
    ["propertyNames", { type: "object", propertyNames: { pattern: "^a" } }],
    ["not", { not: { type: "string" } }],
    ["if", { if: { type: "string" }, else: { minLength: 1 } }],
    ["dependentRequired", { type: "object", dependentRequired: { a: ["b"] } }],
    ["contains", { type: "array", contains: { const: 1 } }],
    ["uniqueItems", { type: "array", uniqueItems: true }],
    ["multipleOf", { type: "number", multipleOf: 0.01 }],
    ["unevaluatedProperties", { type: "object", unevaluatedProperties: false }],
  ];
  const withSchema = (a: object, strict: boolean) => ({
    type: "function",
    function: { name: "f", parameters: { type: "object", properties: { a }, required: ["a"] }, strict },
  });

  it.each(unenforceable)("by %s is rejected with its location if it is strict (TOOL-14)", async (keyword, schema) => {
    const good = { type: "function", function: { name: "g", strict: true } };
    const tools = [good, withSchema(schema, true)];
    for (const model of models) {
      const reply = await api.chat({ model, tools, tool_choice: "required" });
      expectError(reply, 400, "invalid_function_parameters", "tools[1].function.parameters");
      expect(reply.json.error.message).toContain(`'${keyword}'`);
    }
    const auto = await api.chat({ model: "hermes", tools });
    expectError(auto, 400, "invalid_function_parameters", "tools[1].function.parameters");
  });

  it("can still be called if it is not strict (TOOL-14)", async () => {
    for (const [, schema] of unenforceable) {
      const asked = { model: "plain", seed: 1, tools: [withSchema(schema, false)], max_tokens: 40 };
      const { calls } = wholeAnswer(await api.chat({ ...asked, tool_choice: "required" }));
      expect(calls.map(({ name }) => name)).toContain("f");
    }
  });
});
