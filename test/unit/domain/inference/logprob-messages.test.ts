import { describe, expect, it } from "vitest";
import { chatLogprobs } from "../../../../src/domain/inference/chat-answer.js";
import { completionLogprobs } from "../../../../src/domain/inference/completion.js";

/** The character `日` split into two tokens, between tokens of whole characters. */
const split = [
  { token: "é", logprob: -1, top: [] },
  { token: "bytes:\\xe6\\x97", bytes: [0xe6, 0x97], logprob: -2, top: [] },
  {
    token: "bytes:\\xa5",
    bytes: [0xa5],
    logprob: -3,
    top: [
      { token: "bytes:\\xa5", bytes: [0xa5], logprob: -3 },
      { token: "x", logprob: -4 },
    ],
  },
  { token: "!", logprob: -5, top: [] },
];

describe("chatLogprobs", () => {
  it("contains the bytes of each token, also of a token that is a part of a character; together they form the text (RESP-9)", () => {
    const { content } = chatLogprobs(split);
    const bytes = content.flatMap(({ utf8Bytes }) => [...(utf8Bytes ?? [])]);
    expect(Buffer.from(bytes).toString()).toBe("é日!");
    expect(content[2]?.topLogprobs.map(({ utf8Bytes }) => [...(utf8Bytes ?? [])])).toEqual([[0xa5], [0x78]]);
  });
});

describe("completionLogprobs", () => {
  it("counts a character that consists of several tokens once in the text offsets", () => {
    expect(completionLogprobs(split, 5).textOffset.map(Number)).toEqual([5, 6, 7, 7]);
  });

  it("the first token of an echoed prompt has neither a log probability nor alternatives (E-7, CMPL-8)", () => {
    const echoed = [
      { token: "<s>", bytes: [], logprob: Number.NaN, top: [] },
      { token: "a", logprob: -1, top: [{ token: "b", logprob: -0.5 }] },
    ];
    const { tokens, tokenLogprobs, topLogprobs, textOffset } = completionLogprobs(echoed, 0);
    expect([tokens, tokenLogprobs, textOffset]).toEqual([
      ["<s>", "a"],
      [Number.NaN, -1],
      [0, 0],
    ]);
    expect(topLogprobs.map(({ logprobs }) => logprobs)).toEqual([{}, { b: -0.5, a: -1 }]);
  });
});
