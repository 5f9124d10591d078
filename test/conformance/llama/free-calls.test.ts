import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { type LlamaService, startLlamaService } from "../../support/llama-service.js";
import { hermesTemplate } from "../../unit/engines/llama/text/templates.js";
import { type Api, createApi } from "../openai/api.js";
import { type ChatAnswer, streamedAnswer, streaming, wholeAnswer } from "./chat-answer.js";

/** Two calls as a trained model writes them. No word occurs twice. */
const calls =
  '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo 🙂"}}\n</tool_call>' +
  '\n<tool_call> {"arguments":\t{ "city":\t"Rome" },\t"name":\t"get_weather" } </tool_call>';
const script = `Looking. ${calls}`;

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "get_weather", parameters } }];

let service: LlamaService;
let api: Api;

beforeAll(async () => {
  service = await startLlamaService([
    { id: "auto", write: (path) => writeScriptedGguf(path, { text: script, chatTemplate: hermesTemplate }) },
    { id: "forced-only", write: (path) => writeScriptedGguf(path, { text: script }) },
  ]);
  api = createApi(service);
}, 180_000);
afterAll(() => service.close());

async function both(fields: object): Promise<readonly ChatAnswer[]> {
  const asked = { tools, ...fields };
  return [wholeAnswer(await api.chat(asked)), streamedAnswer(await api.chat({ ...asked, ...streaming }))];
}

describe("a tool call that the model makes by its own choice", () => {
  it("is parsed from its text, streamed or not (TOOL-3, TOOL-10)", async () => {
    for (const told of await both({ model: "auto" })) {
      expect(told).toMatchObject({ content: "Looking.", finishReason: "tool_calls" });
      expect(told.calls.map(({ name }) => name)).toEqual(["get_weather", "get_weather"]);
      expect(told.calls.map((call) => JSON.parse(call.arguments))).toEqual([{ city: "Oslo 🙂" }, { city: "Rome" }]);
    }
  });

  it("is the only one if parallel calls are disabled (TOOL-9)", async () => {
    for (const told of await both({ model: "auto", parallel_tool_calls: false })) {
      expect(told.finishReason).toBe("tool_calls");
      expect(told.calls.map((call) => JSON.parse(call.arguments))).toEqual([{ city: "Oslo 🙂" }]);
    }
  });

  it("is returned as text with the choice none and without tools (TOOL-4)", async () => {
    for (const told of [
      ...(await both({ model: "auto", tool_choice: "none" })),
      ...(await both({ model: "auto", tools: [] })),
    ]) {
      expect(told).toMatchObject({ content: script, calls: [], finishReason: "stop" });
    }
  });
});

describe("a model whose template does not support tools", () => {
  it("is listed with tools: forced-only; a model whose template supports tools is listed with auto (MODEL-10)", async () => {
    const { json } = await api.get("/v1/models");
    const listed = json.data.map(({ id, tool_calling }: Record<string, unknown>) => [id, tool_calling]);
    expect(listed).toEqual([
      ["auto", "auto"],
      ["forced-only", "forced-only"],
    ]);
  });

  it("answers the choice auto with text, and its prompt contains no tools (TOOL-3)", async () => {
    const [without] = await both({ model: "forced-only", tools: [] });
    for (const told of await both({ model: "forced-only" })) {
      expect(told).toMatchObject({ content: script, calls: [], finishReason: "stop" });
      expect(told.usage.prompt_tokens).toBe(without?.usage.prompt_tokens);
    }
  });
});
