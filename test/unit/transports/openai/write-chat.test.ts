import { create, type MessageInitShape } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ChatCompletionChunkSchema, ChatCompletionSchema, Role } from "../../../../gen/unified/inference/v1/chat_pb.js";
import { LogprobsSchema } from "../../../../gen/unified/inference/v1/logprobs_pb.js";
import { chatCompletionJson, chatFrames } from "../../../../src/transports/openai/write-chat.js";

const head = { id: "chatcmpl-1", created: 1_767_225_600n, model: "m" };
const usage = { promptTokens: 12, completionTokens: 2, totalTokens: 14 };

const print = (fields: MessageInitShape<typeof ChatCompletionSchema>) =>
  JSON.parse(chatCompletionJson(create(ChatCompletionSchema, Object.assign({ ...head, usage }, fields))).text);

const chunk = (fields: MessageInitShape<typeof ChatCompletionChunkSchema>) =>
  create(ChatCompletionChunkSchema, { ...head, ...fields });

describe("chat completion as JSON", () => {
  it("has exactly the keys of OpenAI's API for a text (RESP-1, RESP-2, RESP-3, RESP-5, RESP-6, PROTO-1)", () => {
    const choices = [{ message: { role: Role.ASSISTANT, content: "Hi" }, finishReason: "stop" }];
    expect(print({ choices, systemFingerprint: "fp_1" })).toEqual({
      id: "chatcmpl-1",
      object: "chat.completion",
      created: 1_767_225_600,
      model: "m",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "Hi", refusal: null },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
      usage: { prompt_tokens: 12, completion_tokens: 2, total_tokens: 14 },
      system_fingerprint: "fp_1",
    });
  });

  it("has calls with null content, a type, and arguments as text (RESP-5, TOOL-10, TOOL-11, TOOL-13)", () => {
    const toolCalls = [
      { id: "call_1", function: { name: "f", argumentsJson: '{"a":1}' } },
      { id: "call_2", function: { name: "g" } },
    ];
    expect(print({ choices: [{ message: { toolCalls }, finishReason: "tool_calls" }] }).choices[0].message).toEqual({
      role: "assistant",
      content: null,
      refusal: null,
      tool_calls: [
        { id: "call_1", type: "function", function: { name: "f", arguments: '{"a":1}' } },
        { id: "call_2", type: "function", function: { name: "g", arguments: "{}" } },
      ],
    });
  });

  it("has details of usage and reasoning only if they exist (RESP-8, RESP-12)", () => {
    const printed = print({
      choices: [{ message: { content: "Hi", reasoningContent: "Hm" }, finishReason: "stop" }],
      usage: { ...usage, promptTokensDetails: { cachedTokens: 3 }, completionTokensDetails: { reasoningTokens: 1 } },
    });
    expect(printed.choices[0].message.reasoning_content).toBe("Hm");
    expect(printed.usage).toMatchObject({
      prompt_tokens_details: { cached_tokens: 3 },
      completion_tokens_details: { reasoning_tokens: 1 },
    });
  });

  it("is the text that JSON.stringify would write, with its keys in the documented order", () => {
    const text = fc.string({ unit: "binary" });
    const orAbsent = fc.option(text, { nil: undefined });
    const call = fc.record({ id: text, function: fc.record({ name: text, argumentsJson: text }) });
    const message = fc.record({
      content: orAbsent,
      refusal: orAbsent,
      reasoningContent: orAbsent,
      toolCalls: fc.array(call, { maxLength: 2 }),
    });
    const finishReason = fc.constantFrom("stop", "length", "tool_calls", "content_filter");
    const id = fc.stringMatching(/^chatcmpl-[A-Za-z0-9]{24}$/);
    const choices = fc.array(fc.record({ index: fc.nat(), message, finishReason }), { maxLength: 2 });
    const answers = fc.record({ id, model: text, choices, serviceTier: orAbsent, systemFingerprint: text });
    fc.assert(
      fc.property(answers, (answer) => {
        const { text: json, isAscii } = chatCompletionJson(create(ChatCompletionSchema, { ...head, usage, ...answer }));
        if (isAscii) expect(json).toMatch(/^[ -~]*$/);
        expect(JSON.stringify(JSON.parse(json))).toBe(json);
        const { message } = JSON.parse(json).choices[0] ?? {};
        expect(message?.content ?? undefined).toBe(answer.choices[0]?.message.content);
      }),
    );
  });

  it("has finite log probabilities with all four keys (RESP-9)", () => {
    const logprobs = create(LogprobsSchema, {
      content: [
        {
          token: "é",
          logprob: -0.5,
          utf8Bytes: new Uint8Array([0xc3, 0xa9]),
          topLogprobs: [{ token: "e", logprob: -1 }],
        },
        { token: "x", logprob: Number.NEGATIVE_INFINITY },
      ],
    });
    expect(print({ choices: [{ logprobs, finishReason: "stop" }] }).choices[0].logprobs).toEqual({
      content: [
        { token: "é", logprob: -0.5, bytes: [195, 169], top_logprobs: [{ token: "e", logprob: -1, bytes: null }] },
        { token: "x", logprob: -9999, bytes: null, top_logprobs: [] },
      ],
      refusal: null,
    });
  });
});

describe("frames of a chat stream", () => {
  const prefix =
    'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1767225600,"model":"m","choices":[';
  const text = (content: string) => chunk({ choices: [{ delta: { content } }] });

  it("have role and empty content in the first delta, and only new values in later ones (STRM-2, STRM-11, STRM-17)", () => {
    const frames = chatFrames(false);
    expect(frames.frame(chunk({ choices: [{ delta: { role: Role.ASSISTANT, content: "" } }] }))).toBe(
      `${prefix}{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n`,
    );
    expect(frames.frame(text("Par"))).toBe(
      `${prefix}{"index":0,"delta":{"content":"Par"},"logprobs":null,"finish_reason":null}]}\n\n`,
    );
    expect(frames.frame(chunk({ choices: [{ delta: {}, finishReason: "stop" }] }))).toBe(
      `${prefix}{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}\n\n`,
    );
  });

  it.each(['"', "\\", "\n", "\r\n\r\n", "\u2028", "\ud83d\ude00", "</script>", "data: [DONE]\n\n"])(
    "have the text %j on one line that parses to the same text (SSE-2)",
    (content) => {
      const frame = chatFrames(false).frame(text(content));
      expect(frame.slice(0, -2)).not.toMatch(/[\r\n]/);
      expect(JSON.parse(frame.slice("data: ".length)).choices[0].delta.content).toBe(content);
    },
  );

  it("have null content in a first delta without text (STRM-2)", () => {
    const frame = chatFrames(false).frame(chunk({ choices: [{ delta: { role: Role.ASSISTANT } }] }));
    expect(frame).toContain('"delta":{"role":"assistant","content":null}');
  });

  it("have id, type and name of a call only in its first delta, and its index in all (STRM-6, STRM-7)", () => {
    const frames = chatFrames(false);
    const call = (delta: object) => frames.frame(chunk({ choices: [{ delta: { toolCalls: [delta] } }] }));
    expect(call({ index: 0, id: "call_1", name: "f" })).toContain(
      '"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":""}}]}',
    );
    expect(call({ index: 0, argumentsJson: '{"a":' })).toContain(
      '"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\\"a\\":"}}]}',
    );
  });

  it("have null as usage until the last, which has no choices, if usage is requested (STRM-10, STRM-13)", () => {
    const frames = chatFrames(true);
    expect(frames.frame(text("a"))).toContain('"finish_reason":null}],"usage":null}');
    expect(frames.frame(chunk({ usage }))).toBe(
      `${prefix}],"usage":{"prompt_tokens":12,"completion_tokens":2,"total_tokens":14}}\n\n`,
    );
  });

  it("have no usage if it is not requested (STRM-11)", () => {
    const frames = chatFrames(false);
    expect(frames.frame(text("a"))).not.toContain("usage");
    expect(frames.frame(chunk({ usage }))).toBe("");
  });

  it("include empty keep-alive chunks, which never belong to a finished choice (SSE-9, STRM-5)", () => {
    const frames = chatFrames(true);
    expect(frames.keepAlive()).toBeNull();
    frames.frame(text("a"));
    expect(frames.keepAlive()).toBe(
      `${prefix}{"index":0,"delta":{},"logprobs":null,"finish_reason":null}],"usage":null}\n\n`,
    );
    frames.frame(chunk({ choices: [{ delta: {}, finishReason: "stop" }] }));
    expect(frames.keepAlive()).toBeNull();
  });

  it("have the service tier that the core returns in every chunk (CHAT-23)", () => {
    const frames = chatFrames(false);
    expect(frames.frame(chunk({ serviceTier: "default", choices: [{ delta: { content: "a" } }] }))).toContain(
      '"service_tier":"default","choices":[',
    );
  });
});
