import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { CompletionChunkSchema, CompletionSchema } from "../../../../gen/unified/inference/v1/completion_pb.js";
import { completionFrames, completionJson } from "../../../../src/transports/openai/completions.js";

const head = { id: "cmpl-1", created: 1_767_225_600n, model: "m" };
const usage = { promptTokens: 1, completionTokens: 2, totalTokens: 3 };
const chunk = (fields: MessageInitShape<typeof CompletionChunkSchema>) =>
  create(CompletionChunkSchema, { ...head, ...fields });

describe("text completion as JSON", () => {
  it("has exactly the keys of OpenAI's API (CMPL-4, CMPL-5)", () => {
    const completion = create(CompletionSchema, { ...head, usage, choices: [{ text: "is", finishReason: "stop" }] });
    expect(JSON.parse(completionJson(completion))).toEqual({
      id: "cmpl-1",
      object: "text_completion",
      created: 1_767_225_600,
      model: "m",
      choices: [{ text: "is", index: 0, logprobs: null, finish_reason: "stop" }],
      usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
    });
  });

  it("has log probabilities as four lists, with null for the first token of an echoed prompt (CMPL-7, CMPL-8, CMPL-9)", () => {
    const logprobs = {
      tokens: ["a", " b"],
      tokenLogprobs: [Number.NaN, -0.5],
      topLogprobs: [{}, { logprobs: { " b": -0.5, " c": Number.NEGATIVE_INFINITY } }],
      textOffset: [0, 1],
    };
    const completion = create(CompletionSchema, { choices: [{ text: "a b", finishReason: "stop", logprobs }] });
    expect(JSON.parse(completionJson(completion))).toMatchObject({
      choices: [
        {
          logprobs: {
            tokens: ["a", " b"],
            token_logprobs: [null, -0.5],
            top_logprobs: [null, { " b": -0.5, " c": -9999 }],
            text_offset: [0, 1],
          },
        },
      ],
    });
  });
});

describe("frames of a completion stream", () => {
  const prefix = 'data: {"id":"cmpl-1","object":"text_completion","created":1767225600,"model":"m","choices":[';

  it("have text and no delta (CMPL-6)", () => {
    const frames = completionFrames(false);
    expect(frames.frame(chunk({ choices: [{ text: 'i"s', index: 1 }] }))).toBe(
      `${prefix}{"text":"i\\"s","index":1,"logprobs":null,"finish_reason":null}]}\n\n`,
    );
    expect(frames.frame(chunk({ choices: [{ text: "", index: 1, finishReason: "length" }] }))).toBe(
      `${prefix}{"text":"","index":1,"logprobs":null,"finish_reason":"length"}]}\n\n`,
    );
    expect(frames.frame(chunk({ usage }))).toBe("");
  });

  it("have usage by the rules of chat (CMPL-6, STRM-10)", () => {
    const frames = completionFrames(true);
    expect(frames.frame(chunk({ choices: [{ text: "a" }] }))).toContain('],"usage":null}');
    expect(frames.frame(chunk({ usage }))).toBe(
      `${prefix}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}\n\n`,
    );
  });

  it("include keep-alive chunks with an empty text of an unfinished choice (SSE-9)", () => {
    const frames = completionFrames(false);
    expect(frames.keepAlive()).toBeNull();
    frames.frame(chunk({ choices: [{ text: "a", index: 2 }] }));
    expect(frames.keepAlive()).toContain('{"text":"","index":2,"logprobs":null,"finish_reason":null}');
  });
});
