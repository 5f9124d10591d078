import { describe, expect, it } from "vitest";
import {
  type AnswerBans,
  createGrammarBans,
  TokenSpelling,
} from "../../../../../src/engines/llama/child/token-spelling.js";

/** A SentencePiece vocabulary: single bytes, text, a control token and a token that ends answers. */
const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
const tokens = [...bytes, "▁the", "日本", "<|note|>", "</s>"];
const note = 258;
const end = 259;

function bans(): AnswerBans {
  const vocabulary = {
    family: "llama",
    size: tokens.length,
    tokens,
    controlTexts: ["<|note|>", "</s>"],
    hidden: new Set([note, end]),
    begin: null,
    endText: "</s>",
  };
  return createGrammarBans(vocabulary, new TokenSpelling(vocabulary, String), (token) => token === end)();
}

function bannedAfter(...said: readonly number[]): readonly number[] {
  const answer = bans();
  for (const token of said) answer.push(token);
  return [...answer.tokens].filter((token) => token !== note).sort((a, b) => a - b);
}

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, i) => first + i);

describe("createGrammarBans", () => {
  it("bans bytes that cannot begin a code point, and tokens without text", () => {
    expect(bannedAfter()).toEqual([0xc0, 0xc1, ...range(0xf5, 0xff)]);
    const { tokens: banned } = bans();
    expect(banned.has(note)).toBe(true);
    expect(banned.has(end)).toBe(false);
  });

  it("bans bytes that would complete an overlong code point, a surrogate or one above U+10FFFF", () => {
    expect(bannedAfter(0xe0)).toEqual(range(0x80, 0x9f));
    expect(bannedAfter(0xed)).toEqual(range(0xa0, 0xbf));
    expect(bannedAfter(0xf0)).toEqual(range(0x80, 0x8f));
    expect(bannedAfter(0xf4)).toEqual(range(0x90, 0xbf));
    for (const said of [[0xc3], [0xe1], [0xe0, 0xa0], [0xf0, 0x9f], [0xf1]]) expect(bannedAfter(...said)).toEqual([]);
    expect(bannedAfter(0xe6, 0x97, 0xa5)).toEqual(bannedAfter());
  });

  it("returns the same set object whenever the text ends in the same UTF-8 state", () => {
    const answer = bans();
    const first = answer.tokens;
    answer.push(0xe0);
    answer.push(0xa0);
    answer.push(0x80);
    expect(answer.tokens).toBe(first);
  });
});
