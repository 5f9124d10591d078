import { Ajv } from "ajv";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chat, streamChat, user } from "../support/model-client.js";
import { type ModelService, startModelService } from "../support/model-service.js";

let service: ModelService;

beforeAll(async () => {
  service = await startModelService({ kind: "chat", slots: 2 });
});

afterAll(() => service?.close());

const place = {
  type: "object",
  properties: { city: { type: "string", maxLength: 40 }, unit: { enum: ["celsius", "fahrenheit"] } },
  required: ["city", "unit"],
  additionalProperties: false,
};
const weatherTool = {
  type: "function",
  function: { name: "get_weather", description: "Get the weather of a city", parameters: place, strict: true },
};
const mailTool = {
  type: "function",
  function: {
    name: "send_mail",
    description: "Send a mail",
    parameters: {
      type: "object",
      properties: { to: { type: "string", maxLength: 40 }, urgent: { type: "boolean" } },
      required: ["to", "urgent"],
      additionalProperties: false,
    },
    strict: true,
  },
};
const isPlace = new Ajv().compile(place);
const isMail = new Ajv().compile(mailTool.function.parameters);
const named = { type: "function", function: { name: "get_weather" } };

/** Names that the small model copies into the call. */
const cities = ["Paris", "Tokyo", "New York", "London", "Berlin"] as const;
const weatherOf = (city: string): string => `What is the weather in ${city} in celsius?`;

describe("forced calls of the real chat model", () => {
  it.each(cities)("are calls of the named function for %s, streamed or not (TOOL-5, TOOL-10)", async (city) => {
    const asked = { messages: [user(weatherOf(city))], tools: [weatherTool, mailTool], tool_choice: named };
    const { choices } = await chat(service, asked);
    expect(choices).toMatchObject([{ finish_reason: "tool_calls", message: { content: null } }]);
    const calls = choices[0]?.message.tool_calls ?? [];
    expect(calls).toMatchObject([{ function: { name: "get_weather" } }]);
    const text = calls[0]?.function.arguments ?? "";
    expect(isPlace(JSON.parse(text)), text).toBe(true);
    expect(JSON.parse(text)).toMatchObject({ city: expect.stringContaining(city) });

    const streamed = await streamChat(service, asked);
    expect(streamed).toMatchObject({
      finishReason: "tool_calls",
      toolName: "get_weather",
      toolArguments: text,
      text: "",
    });
  });

  it.each(cities)(
    "with `required` are calls of one of the given functions with valid arguments: %s (TOOL-5)",
    async (city) => {
      const { choices } = await chat(service, {
        messages: [user(weatherOf(city))],
        tools: [weatherTool, mailTool],
        tool_choice: "required",
        parallel_tool_calls: false,
      });
      expect(choices[0]?.finish_reason).toBe("tool_calls");
      const calls = choices[0]?.message.tool_calls ?? [];
      expect(calls).toHaveLength(1);
      for (const { function: called } of calls) {
        const isValid = called.name === "get_weather" ? isPlace : isMail;
        expect(["get_weather", "send_mail"]).toContain(called.name);
        expect(isValid(JSON.parse(called.arguments)), called.arguments).toBe(true);
      }
    },
  );

  it("are replaced by text with `none`, and with `auto` if the model's template has no tools (TOOL-4)", async () => {
    for (const tool_choice of ["none", "auto"]) {
      const asked = { messages: [user(weatherOf("Paris"))], tools: [weatherTool], tool_choice, max_tokens: 24 };
      const { choices } = await chat(service, asked);
      expect(choices[0]?.message.tool_calls).toBeUndefined();
      expect(choices[0]?.message.content).not.toBe("");
    }
  });
});

describe("JSON of the real chat model", () => {
  const person = {
    type: "object",
    properties: {
      name: { type: "string", maxLength: 40 },
      age: { type: "integer", minimum: 0, maximum: 150 },
      city: { type: "string", maxLength: 40 },
    },
    required: ["name", "age", "city"],
    additionalProperties: false,
  };

  it.each([
    ["Maria Lopez, 34, moved to Berlin last year.", { name: "Maria Lopez", age: 34, city: "Berlin" }],
    ["John Smith is 52 years old and lives in Toronto.", { name: "John Smith", age: 52, city: "Toronto" }],
  ])("with a schema contains the name, age and city in: %s (RF-3)", async (text, found) => {
    const { choices } = await chat(service, {
      messages: [user(`Extract as JSON with keys name, age, city: ${text}`)],
      response_format: { type: "json_schema", json_schema: { name: "person", strict: true, schema: person } },
    });
    expect(choices[0]?.finish_reason).toBe("stop");
    expect(JSON.parse(choices[0]?.message.content ?? "")).toEqual(found);
  });

  it("with `json_object` is one object without other text (RF-1)", async () => {
    const { choices } = await chat(service, {
      messages: [user("Describe a cat as a JSON object with the keys colour, age and sound.")],
      response_format: { type: "json_object" },
      max_tokens: 200,
    });
    expect(choices[0]?.finish_reason).toBe("stop");
    expect(JSON.parse(choices[0]?.message.content ?? "")).toBeTypeOf("object");
    expect(choices[0]?.message.content).toMatch(/^\{.*\}$/s);
  });
});
