import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ChatCompletionChunkSchema, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { CompletionChunkSchema } from "../../../../gen/unified/inference/v1/completion_pb.js";
import { mergeChatChunks, mergeCompletionChunks } from "../../../../src/domain/rpc/inference-service.js";

type ChatInit = MessageInitShape<typeof ChatCompletionChunkSchema>;
const chat = (init: ChatInit) => create(ChatCompletionChunkSchema, { id: "c", created: 7n, model: "m", ...init });
const chatText = (content: string, index = 0) => chat({ choices: [{ index, delta: { content } }] });

type CompletionInit = MessageInitShape<typeof CompletionChunkSchema>;
const completion = (init: CompletionInit) => create(CompletionChunkSchema, { id: "c", ...init });

describe("mergeChatChunks", () => {
  it("joins two texts of one choice without loss or change (GRPC-6)", () => {
    const waiting = chatText("Hel", 2);
    const merged = mergeChatChunks(waiting, chatText("lo.", 2), 100);
    expect(merged).toEqual(chatText("Hello.", 2));
    expect(waiting).toEqual(chatText("Hel", 2));
  });

  it("does not merge texts that together exceed the maximum length", () => {
    expect(mergeChatChunks(chatText("abc"), chatText("de"), 5)).not.toBeNull();
    expect(mergeChatChunks(chatText("abc"), chatText("def"), 5)).toBeNull();
  });

  const others: readonly (readonly [string, ChatInit])[] = [
    ["another choice", { choices: [{ index: 1, delta: { content: "a" } }] }],
    ["a role", { choices: [{ index: 0, delta: { role: Role.ASSISTANT, content: "a" } }] }],
    ["reasoning", { choices: [{ index: 0, delta: { reasoningContent: "a" } }] }],
    ["a refusal", { choices: [{ index: 0, delta: { refusal: "a" } }] }],
    ["a tool call", { choices: [{ index: 0, delta: { toolCalls: [{ index: 0 }] } }] }],
    ["log probabilities", { choices: [{ index: 0, delta: { content: "a" }, logprobs: {} }] }],
    ["a finish reason", { choices: [{ index: 0, delta: { content: "a" }, finishReason: "stop" }] }],
    ["no text", { choices: [{ index: 0, delta: {} }] }],
    ["the usage", { choices: [], usage: { promptTokens: 1 } }],
    [
      "two choices",
      {
        choices: [
          { index: 0, delta: { content: "a" } },
          { index: 1, delta: { content: "a" } },
        ],
      },
    ],
  ];
  it.each(others)("does not merge %s", (_what, init) => {
    expect(mergeChatChunks(chatText("a"), chat(init), 100)).toBeNull();
    expect(mergeChatChunks(chat(init), chatText("a"), 100)).toBeNull();
  });
});

describe("mergeCompletionChunks", () => {
  const text = (value: string, index = 0) => completion({ choices: [{ index, text: value }] });

  it("joins two texts of one choice within the bound", () => {
    expect(mergeCompletionChunks(text("Hel", 1), text("lo.", 1), 6)).toEqual(text("Hello.", 1));
    expect(mergeCompletionChunks(text("Hel"), text("lo."), 5)).toBeNull();
  });

  const others: readonly (readonly [string, CompletionInit])[] = [
    ["another choice", { choices: [{ index: 1, text: "a" }] }],
    ["log probabilities", { choices: [{ index: 0, text: "a", logprobs: {} }] }],
    ["a finish reason", { choices: [{ index: 0, text: "", finishReason: "stop" }] }],
    ["the usage", { choices: [], usage: { promptTokens: 1 } }],
  ];
  it.each(others)("does not merge %s", (_what, init) => {
    expect(mergeCompletionChunks(text("a"), completion(init), 100)).toBeNull();
    expect(mergeCompletionChunks(completion(init), text("a"), 100)).toBeNull();
  });
});
