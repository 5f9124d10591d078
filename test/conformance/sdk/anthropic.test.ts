import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import type { MessageParam, Tool } from "@anthropic-ai/sdk/resources/messages";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";
import { collect } from "./collect.js";
import { sayings, sdkService } from "./models.js";

const messages: MessageParam[] = [{ role: "user", content: "How is the weather in Oslo?" }];
const params = { model: "org/chat:tag", max_tokens: 100, messages };
const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] } as const;
const weather: Tool = {
  name: "weather",
  description: "The weather of a city.",
  input_schema: { ...schema, required: [...schema.required] },
};

describe("npm @anthropic-ai/sdk", () => {
  let service: RunningService;
  let client: Anthropic;
  beforeAll(async () => {
    service = await startService(sdkService);
    client = new Anthropic({ apiKey: service.key, baseURL: service.http, maxRetries: 0 });
  });
  afterAll(() => service.close());

  it("a stream has the events of a message in order (ANT-2, ANT-3)", async () => {
    const events = await collect(await client.messages.create({ ...params, stream: true }));
    const isDelta = ({ type }: { type: string }) => type === "content_block_delta";
    expect(events.filter((event) => !isDelta(event)).map(({ type }) => type)).toEqual([
      "message_start",
      "content_block_start",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    expect(events.filter(isDelta).length).toBeGreaterThan(1);
  });

  it("the stream helper builds the same message as create (ANT-2, ANT-4, ANT-7)", async () => {
    const whole = await client.messages.create(params);
    const stream = client.messages.stream(params);
    const texts: string[] = [];
    stream.on("text", (text) => texts.push(text));
    const message = await stream.finalMessage();
    expect(texts.join("")).toBe(sayings.chat);
    const { content, stop_reason } = whole;
    expect(message).toMatchObject({ content, stop_reason, model: "org/chat:tag" });
    expect(message.usage).toMatchObject({ input_tokens: 6, output_tokens: 6 });
  });

  it("stop_reason names a stop sequence and an answer of the maximum length (ANT-4)", async () => {
    const stopped = await client.messages.create({ ...params, stop_sequences: [" capital"] });
    expect(stopped).toMatchObject({ stop_reason: "stop_sequence", stop_sequence: " capital" });
    expect(stopped.content).toMatchObject([{ type: "text", text: "Paris is the" }]);
    expect(await client.messages.create({ ...params, max_tokens: 2 })).toMatchObject({ stop_reason: "max_tokens" });
  });

  it("several tools are called in one message, streamed or not (ANT-3, ANT-4)", async () => {
    const request = { ...params, model: "tools", tools: [weather, { ...weather, name: "clock" }] };
    const content = [
      { type: "tool_use", id: expect.any(String), name: "weather", input: { city: "Oslo" } },
      { type: "tool_use", id: expect.any(String), name: "clock", input: {} },
    ];
    for (const message of [
      await client.messages.create(request),
      await client.messages.stream(request).finalMessage(),
    ]) {
      expect(message).toMatchObject({ content, stop_reason: "tool_use" });
      expect(new Set(message.content.map((block) => block.type === "tool_use" && block.id)).size).toBe(2);
    }
  });

  it.each([false, true])(
    "the tool runner completes the cycle of call, result and answer, stream: %s (ANT-1)",
    async (stream) => {
      const asked: string[] = [];
      const runnable = betaTool({
        name: "weather",
        description: "The weather of a city.",
        inputSchema: schema,
        run({ city }) {
          asked.push(city);
          return "12 degrees";
        },
      });
      const request = { model: "agent", max_tokens: 100, messages, tools: [runnable], max_iterations: 5 };
      const runner = client.beta.messages.toolRunner({ ...request, stream });
      expect((await runner.runUntilDone()).content).toMatchObject([{ type: "text", text: sayings.afterTools }]);
      expect(asked).toEqual(["Oslo"]);
    },
  );
});
