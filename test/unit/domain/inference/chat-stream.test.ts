import { describe, expect, it } from "vitest";
import { fixedLimits } from "../../../../src/contract/limits.js";
import type { GenEvent } from "../../../../src/domain/engine/engine.js";
import {
  AnswerIdentity,
  ChatStream,
  CollectedChoices,
  wholeChat,
} from "../../../../src/domain/inference/chat-answer.js";

type ToolEvent = Extract<GenEvent, { type: "tool" }>;

const tool = (index: number, fields: Pick<ToolEvent, "id" | "name" | "argsDelta">): ToolEvent => ({
  type: "tool",
  choice: 0,
  index,
  outTokens: 1,
  ...fields,
});

/** The arguments of each call, as a reader of the stream joins them. */
function joinedArguments(events: readonly ToolEvent[]): string[] {
  const stream = new ChatStream(new AnswerIdentity("chatcmpl-1", 0, "m", 1, undefined));
  const joined: string[] = [];
  for (const { choices } of events.flatMap((event) => stream.take(0, event)))
    for (const { index, argumentsJson } of choices[0]?.delta?.toolCalls ?? [])
      joined[index] = (joined[index] ?? "") + (argumentsJson ?? "");
  return joined;
}

describe("a chat answer", () => {
  it("streams all arguments of a tool call, whether the first fragment arrives with the call's name or after it (STRM-9)", () => {
    const events = [
      tool(0, { id: "call_a", name: "weather", argsDelta: '{"city":' }),
      tool(0, { argsDelta: '"Oslo"}' }),
      tool(1, { id: "call_b", name: "clock" }),
      tool(1, { argsDelta: '{"zone":"UTC"}' }),
      tool(2, { id: "call_c", name: "ring", argsDelta: "{}" }),
    ];
    expect(joinedArguments(events)).toEqual(['{"city":"Oslo"}', '{"zone":"UTC"}', "{}"]);
  });

  it("has at most a fixed number of log probabilities, over all choices together, if it is not streamed (E-7)", () => {
    const { wholeLogprobsMax } = fixedLimits;
    const logprobs = Array.from({ length: wholeLogprobsMax / 2 }, () => ({ token: "a", logprob: -1, top: [] }));
    const half: GenEvent = { type: "text", choice: 0, text: "a", outTokens: 0, logprobs };
    const collected = new CollectedChoices(2);
    collected.take(0, half);
    collected.take(1, half);
    expect(() => collected.take(0, { ...half, logprobs: logprobs.slice(0, 1) })).toThrow(
      expect.objectContaining({ code: "invalid_value", param: "logprobs" }),
    );
  });

  it("contains the stop string that ended it, both in the last chunk of a stream and in a whole answer", () => {
    const identity = new AnswerIdentity("chatcmpl-1", 0, "m", 1, undefined);
    const end: GenEvent = { type: "finish", choice: 0, reason: "stop", outTokens: 1, stopSequence: "END" };
    const chunks = new ChatStream(identity).take(0, end);
    expect(chunks.at(-1)?.choices[0]).toMatchObject({ finishReason: "stop", stopSequence: "END" });
    const collected = new CollectedChoices(1);
    collected.take(0, end);
    const usage = { promptTokens: 1, completionTokens: 1, cachedTokens: 0, reasoningTokens: 0 };
    expect(wholeChat(identity, collected.choices, usage).choices[0]).toMatchObject({ stopSequence: "END" });
  });
});
