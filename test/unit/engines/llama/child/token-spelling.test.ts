import { describe, expect, it } from "vitest";
import type { NativeVocabulary } from "../../../../../src/engines/llama/child/native-model.js";
import { TokenSpelling } from "../../../../../src/engines/llama/child/token-spelling.js";

function spelling(family: string, tokens: readonly string[]): TokenSpelling {
  const vocabulary: NativeVocabulary = {
    family,
    size: tokens.length,
    tokens,
    controlTexts: [],
    hidden: new Set(),
    begin: null,
    endText: "",
  };
  return new TokenSpelling(vocabulary, (token) => `text of ${token}`);
}

describe("TokenSpelling", () => {
  it("reads the letters of byte-level vocabularies as bytes", () => {
    const gpt2 = spelling("gpt2", ["Ġhello", "æĹ¥", "æĹ", "Ċ", "<|im_end|>", "日 raw"]);
    expect([0, 1, 2, 3, 4, 5].map((token) => gpt2.spell(token))).toEqual([
      { token: " hello" },
      { token: "日" },
      { token: "bytes:\\xe6\\x97", bytes: [0xe6, 0x97] },
      { token: "\n" },
      { token: "<|im_end|>" },
      { token: "日 raw" },
    ]);
  });

  it("reads the pieces of SentencePiece vocabularies", () => {
    const llama = spelling("llama", ["▁the", "<0xE6>", "<0x0A>"]);
    expect([0, 1, 2].map((token) => llama.spell(token))).toEqual([
      { token: " the" },
      { token: "bytes:\\xe6", bytes: [0xe6] },
      { token: "\n" },
    ]);
  });

  it("uses the binding's text if the spelling is unknown", () => {
    expect(spelling("plamo2", ["x"]).spell(0)).toEqual({ token: "text of 0" });
  });
});
