import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import {
  type AssistantMessageSchema,
  ChatCompletionChunkSchema,
  ChatCompletionSchema,
} from "../../../../../gen/unified/inference/v1/chat_pb.js";
import { ResponseFrames } from "../../../../../src/transports/openai/responses/response-frames.js";
import { ResponseObject, wholeResponseJson } from "../../../../../src/transports/openai/responses/response-object.js";

const digits = "0123456789abcdefGHIJKLMN";
const responseOf = () => new ResponseObject(`resp_${digits}`, 1_767_225_600, '"model":"m"');
const usage = {
  promptTokens: 12,
  completionTokens: 5,
  totalTokens: 17,
  promptTokensDetails: { cachedTokens: 3 },
  completionTokensDetails: { reasoningTokens: 2 },
};
type Message = MessageInitShape<typeof AssistantMessageSchema>;

const whole = (message: Message, finishReason = "stop") =>
  JSON.parse(
    wholeResponseJson(responseOf(), create(ChatCompletionSchema, { choices: [{ message, finishReason }], usage })),
  );

/** The response in the last event of a stream of the same answer. */
function streamed({ reasoningContent, content, refusal, toolCalls = [] }: Message, finishReason: string): unknown {
  const frames = new ResponseFrames(responseOf(), (fault) => fault);
  const write = (choice: object) => frames.frame(create(ChatCompletionChunkSchema, { choices: [choice] }));
  if (reasoningContent !== undefined) write({ delta: { reasoningContent } });
  if (content !== undefined) write({ delta: { content } });
  if (refusal !== undefined) write({ delta: { refusal } });
  for (const [index, call] of toolCalls.entries()) {
    write({ delta: { toolCalls: [{ index, id: call.id, name: call.function?.name, ...call.function }] } });
  }
  write({ delta: {}, finishReason });
  frames.frame(create(ChatCompletionChunkSchema, { usage }));
  const end = frames.end();
  return JSON.parse(end.slice(end.indexOf("data: ") + "data: ".length)).response;
}

describe("a response that is not streamed", () => {
  it("has exactly the members of OpenAI's API for a text (RSP-4, RSP-5)", () => {
    expect(whole({ content: "Hi" })).toEqual({
      id: `resp_${digits}`,
      object: "response",
      created_at: 1_767_225_600,
      status: "completed",
      error: null,
      incomplete_details: null,
      model: "m",
      output: [
        {
          id: `msg_${digits}0`,
          type: "message",
          status: "completed",
          role: "assistant",
          content: [{ type: "output_text", text: "Hi", annotations: [], logprobs: [] }],
        },
      ],
      usage: {
        input_tokens: 12,
        input_tokens_details: { cached_tokens: 3 },
        output_tokens: 5,
        output_tokens_details: { reasoning_tokens: 2 },
        total_tokens: 17,
      },
    });
  });

  it("has separate items with ids for reasoning, text and calls (RSP-5, RSP-11, RSP-12)", () => {
    const toolCalls = [
      { id: "call_a", function: { name: "f", argumentsJson: '{"a":1}' } },
      { id: "call_b", function: { name: "g", argumentsJson: "" } },
    ];
    const { output } = whole({ reasoningContent: "Hm", content: "Wait.", toolCalls }, "tool_calls");
    expect(output).toEqual([
      {
        ...{ id: `rs_${digits}0`, type: "reasoning", status: "completed", summary: [] },
        content: [{ type: "reasoning_text", text: "Hm" }],
      },
      expect.objectContaining({ id: `msg_${digits}1`, type: "message" }),
      {
        ...{ id: `fc_${digits}2`, type: "function_call", status: "completed" },
        ...{ call_id: "call_a", name: "f", arguments: '{"a":1}' },
      },
      {
        ...{ id: `fc_${digits}3`, type: "function_call", status: "completed" },
        ...{ call_id: "call_b", name: "g", arguments: "{}" },
      },
    ]);
  });

  it.each([
    ["length", "max_output_tokens"],
    ["content_filter", "content_filter"],
  ])("is incomplete if it ends with %s (RSP-10)", (finishReason, reason) => {
    const { status, incomplete_details: details, output } = whole({ content: "Par" }, finishReason);
    expect({ status, details, item: output[0].status }).toEqual({
      status: "incomplete",
      details: { reason },
      item: "incomplete",
    });
  });

  it.each<[string, Message, string]>([
    ["text", { content: "Hi" }, "stop"],
    ["nothing", { content: "" }, "stop"],
    ["calls", { toolCalls: [{ id: "call_a", function: { name: "f", argumentsJson: "{}" } }] }, "tool_calls"],
    ["reasoning and text", { reasoningContent: "Hm", content: "Hi" }, "stop"],
    ["reasoning only", { reasoningContent: "Hm", content: "" }, "stop"],
    ["cut reasoning", { reasoningContent: "Hm", content: "" }, "length"],
    ["nothing, cut", { content: "" }, "length"],
    ["a refusal", { refusal: "No." }, "stop"],
    ["text and a refusal", { content: "Hm.", refusal: "No." }, "stop"],
    ["a cut call", { toolCalls: [{ id: "call_a", function: { name: "f", argumentsJson: "" } }] }, "length"],
  ])("equals the last event of a stream: %s (STRM-18, RSP-7)", (_, message, finishReason) => {
    expect(streamed(message, finishReason)).toEqual(whole(message, finishReason));
  });
});
