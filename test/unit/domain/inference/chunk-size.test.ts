import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ChatCompletionChunkSchema } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { CompletionChunkSchema } from "../../../../gen/unified/inference/v1/completion_pb.js";
import { chatChunkBytes } from "../../../../src/domain/inference/chat-answer.js";
import { completionChunkBytes } from "../../../../src/domain/inference/completion.js";

const text = "x".repeat(1_000);
const alternatives = 5;

describe("the estimated memory of a chunk", () => {
  it.each([
    ["content", { content: text }],
    ["reasoning", { reasoningContent: text }],
    ["a refusal", { refusal: text }],
    ["arguments of a tool call", { toolCalls: [{ index: 0, argumentsJson: text }] }],
  ])("counts its objects and %s", (_, delta) => {
    const empty = chatChunkBytes(create(ChatCompletionChunkSchema, { choices: [{ delta: {} }] }));
    expect(empty).toBeGreaterThan(300);
    const chunk = create(ChatCompletionChunkSchema, { choices: [{ delta }] });
    expect(chatChunkBytes(chunk)).toBe(empty + text.length);
  });

  it("counts an upstream's original text", () => {
    const chunk = create(ChatCompletionChunkSchema, {});
    expect(chatChunkBytes({ ...chunk, native: text })).toBe(chatChunkBytes(chunk) + text.length);
  });

  it("counts every alternative of log probabilities, which are larger than the text", () => {
    const topLogprobs = Array.from({ length: alternatives }, () => ({ token: "a", logprob: -1 }));
    const chat = create(ChatCompletionChunkSchema, {
      choices: [{ delta: { content: "a" }, logprobs: { content: [{ token: "a", logprob: -1, topLogprobs }] } }],
    });
    expect(chatChunkBytes(chat)).toBeGreaterThan((alternatives + 1) * 300);
    const completion = create(CompletionChunkSchema, {
      choices: [
        {
          text,
          logprobs: {
            tokens: ["a"],
            tokenLogprobs: [-1],
            topLogprobs: [{ logprobs: { a: -1, b: -1 } }],
            textOffset: [0],
          },
        },
      ],
    });
    expect(completionChunkBytes(completion)).toBeGreaterThan(text.length + 3 * 300);
  });
});
