import { describe, expect, it } from "vitest";
import type { GenEvent } from "../../../../../src/domain/engine/engine.js";
import { type OutputReader, PlainReader, ThinkingReader } from "../../../../../src/engines/llama/chat/output-reader.js";
import { ChoiceOutput } from "../../../../../src/engines/llama/child/choice-output.js";
import type { NativeVocabulary } from "../../../../../src/engines/llama/child/native-model.js";
import { TokenSpelling } from "../../../../../src/engines/llama/child/token-spelling.js";

/** A ChoiceOutput for a vocabulary of these texts. */
function output(texts: readonly string[], reader: OutputReader, options: { stop?: string[]; logprobs?: number } = {}) {
  const detokenize = (tokens: readonly number[]): string => tokens.map((token) => texts[token] ?? "").join("");
  const vocabulary: NativeVocabulary = {
    family: "words",
    size: texts.length,
    tokens: [],
    controlTexts: [],
    hidden: new Set(),
    begin: null,
    endText: "",
  };
  return new ChoiceOutput({
    reader,
    stop: options.stop ?? [],
    logprobs: options.logprobs ?? null,
    spelling: new TokenSpelling(vocabulary, (token) => detokenize([token])),
    detokenize,
  });
}

function say(choice: ChoiceOutput, tokens: number): readonly GenEvent[] {
  return Array.from({ length: tokens }, (_, token) =>
    choice.push({ token, probabilities: new Map([[token, 0.5]]) }),
  ).flat();
}

function shown(events: readonly GenEvent[]): readonly (readonly [string, readonly string[]])[] {
  return events.flatMap((event) =>
    event.type === "text" ? [[event.text, event.logprobs?.map(({ token }) => token) ?? []] as const] : [],
  );
}

describe("ChoiceOutput", () => {
  it("separates thoughts, their tokens and their log probabilities from the content (RESP-12)", () => {
    const texts = ["<think>", "so", " so", "</think>", "\n", "Yes", "."];
    const choice = output(texts, new ThinkingReader(new PlainReader(), false), { logprobs: 0 });
    const events = say(choice, texts.length);
    const { events: last, reason } = choice.end(false);
    expect(events.map((event) => event.type)).toEqual(["reasoning", "reasoning", "text", "text"]);
    expect(shown([...events, ...last])).toEqual([
      ["Yes", ["Yes"]],
      [".", ["."]],
    ]);
    expect(choice.reasoningTokens).toBeGreaterThanOrEqual(2);
    expect(choice.reasoningTokens).toBeLessThanOrEqual(5);
    expect(reason).toBe("stop");
  });

  it("searches only the content for stop sequences (CHAT-8)", () => {
    const texts = ["<think>", "STOP", "</think>", "a", "STOP", "b"];
    const choice = output(texts, new ThinkingReader(new PlainReader(), false), { stop: ["STOP"] });
    const events = say(choice, 5);
    expect(choice.isOver).toBe(true);
    expect(shown(events)).toEqual([["a", []]]);
    expect(choice.end(false)).toEqual({ events: [], reason: "stop", stopSequence: "STOP", fault: null });
    expect(choice.tokens).toHaveLength(5);
  });

  it("emits log probabilities with the event that completes their text, one for each token (STRM-16)", () => {
    const texts = ["a", "bx", "yc", "", "d"];
    const choice = output(texts, new PlainReader(), { stop: ["xyz"], logprobs: 0 });
    expect(shown(say(choice, texts.length))).toEqual([
      ["a", ["a"]],
      ["b", []],
      ["xyc", ["bx", "yc"]],
      ["d", ["", "d"]],
    ]);
    expect(choice.end(false).events).toEqual([]);
  });

  it("emits held-back text and log probabilities at the end, also of tokens without text (STRM-16)", () => {
    const choice = output(["a", "x", ""], new PlainReader(), { stop: ["xyz"], logprobs: 0 });
    expect(shown(say(choice, 3))).toEqual([["a", ["a"]]]);
    expect(shown(choice.end(true).events)).toEqual([
      ["x", ["x"]],
      ["", [""]],
    ]);
  });
});
