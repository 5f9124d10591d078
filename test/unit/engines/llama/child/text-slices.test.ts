import { describe, expect, it } from "vitest";
import { ControlTexts } from "../../../../../src/engines/llama/chat/prompt-pieces.js";
import { SlicedTokenizer } from "../../../../../src/engines/llama/child/prompt.js";

/** Tokens like those of byte-level vocabularies: words with the space before them, and the text between words. */
const words = / ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;
const ids = new Map<string, number>();

function idOf(word: string): number {
  const id = ids.get(word) ?? ids.size;
  ids.set(word, id);
  return id;
}

class WordModel {
  readonly slices: string[] = [];

  tokenize(text: string): readonly number[] {
    this.slices.push(text);
    return (text.match(words) ?? []).map(idOf);
  }
}

const controlTexts = new ControlTexts(["<|im start|>", "<|im_end|>"]);
const pass = (): void => {};

async function sliced(text: string): Promise<{ tokens: readonly number[]; slices: readonly string[] }> {
  const model = new WordModel();
  const tokens = await new SlicedTokenizer(model, controlTexts).tokenize(text, {}, pass);
  return { tokens, slices: model.slices };
}

describe("SlicedTokenizer", () => {
  it.each([
    ["words", "Alpha beta, gamma (delta) epsilon. ".repeat(2_000)],
    ["lines", "one two\n\tthree  four\n\n".repeat(2_000)],
    ["text without spaces", "天地玄黄，宇宙洪荒。".repeat(5_000)],
    ["short text", "Hello, you."],
  ])("gives the tokens of the whole text: %s (E-3)", async (_, text) => {
    const { tokens, slices } = await sliced(text);
    expect(tokens).toEqual(new WordModel().tokenize(text));
    expect(slices.join("")).toBe(text);
    expect(Math.max(...slices.map(({ length }) => length))).toBeLessThanOrEqual(8_192);
  });

  it("cuts text without spaces, but not inside of a character or control text", async () => {
    const runs = [
      "z".repeat(40_000),
      "\u{1f600}".repeat(20_000),
      `${"z".repeat(8_187)}<|im start|>${"z".repeat(9_000)}`,
    ];
    for (const text of runs) {
      const { slices } = await sliced(text);
      expect(slices.join("")).toBe(text);
      expect(slices.every((slice) => !/\p{Cs}/u.test(slice))).toBe(true);
      expect(slices.length).toBeGreaterThan(1);
    }
    const { slices } = await sliced(runs[2] ?? "");
    expect(slices.some((slice) => slice.includes("<|im start|>"))).toBe(true);
  });

  it("lets the event loop run between slices, and alternates between calls (E-3)", async () => {
    const model = new WordModel();
    const tokenizer = new SlicedTokenizer(model, controlTexts);
    let passes = 0;
    let isOver = false;
    const count = (): void => {
      passes += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const texts = ["a ".repeat(20_000), "b ".repeat(20_000)];
    await Promise.all(texts.map((text) => tokenizer.tokenize(text, {}, pass)));
    isOver = true;
    expect(passes).toBeGreaterThanOrEqual(model.slices.length - 1);
    const order = model.slices.map((slice) => slice.trim().charAt(0)).join("");
    expect(order).toMatch(/^a{1,2}(ba){2,}b*$/);
  });

  it("tokenizes small texts immediately, many of them in one pass", async () => {
    const model = new WordModel();
    const tokenizer = new SlicedTokenizer(model, controlTexts);
    void tokenizer.tokenize("a b", {}, pass);
    void tokenizer.tokenize("c d", {}, pass);
    expect(model.slices).toEqual(["a b", "c d"]);
  });

  it("stops when its check throws", async () => {
    const model = new WordModel();
    let checks = 0;
    const tokenized = new SlicedTokenizer(model, controlTexts).tokenize("a ".repeat(50_000), {}, () => {
      checks += 1;
      if (checks === 3) throw new Error("aborted");
    });
    await expect(tokenized).rejects.toThrow("aborted");
    expect(model.slices).toHaveLength(2);
  });
});
