import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { GenEvent } from "../../../../src/domain/engine/engine.js";
import { AnswerEvents } from "../../../../src/engines/openai/answer/answer-events.js";
import { TextTemplate } from "../../../../src/engines/openai/answer/text-template.js";
import { answerOptions } from "../../../support/upstream/answer-options.js";
import { chatRequest } from "../../../support/upstream/engine-calls.js";

type Chunk = Readonly<Record<string, unknown>>;

/** The text that a template made of `seen` finds in `data`; null: no match. */
function matched(seen: string, data: string): string | null {
  const template = new TextTemplate();
  template.learn(seen, JSON.parse(seen));
  return template.match(data);
}

const openai = (content: string, more: object = {}): string =>
  JSON.stringify({
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 5,
    model: "m",
    choices: [{ index: 0, delta: { content }, finish_reason: null }],
    ...more,
  });

describe("TextTemplate", () => {
  it("reads the text of a chunk that has the form of an earlier chunk", () => {
    expect(matched(openai("Hello"), openai(" wörld 😀"))).toBe(" wörld 😀");
  });

  it("does not match chunks that have escapes or differ in more than their text", () => {
    const seen = openai("Hello");
    for (const other of [
      openai('a"b'),
      openai("a\\b"),
      openai("a\nb"),
      seen.replace("null", '"stop"'),
      seen.replace('"index":0', '"index":1'),
      `${seen} `,
      seen.slice(0, -1),
      seen.replace("Hello", "tab\tinside"),
    ]) {
      expect(matched(seen, other), other).toBeNull();
    }
  });

  it("reads the creation time and the counts as numbers that may differ", () => {
    const usage = (out: number) => ({ usage: { prompt_tokens: 10, total_tokens: 10 + out, completion_tokens: out } });
    const template = new TextTemplate();
    const seen = openai("a", usage(1));
    template.learn(seen, JSON.parse(seen));
    expect(template.match(openai("b", usage(12_345)))).toBe("b");
    expect(template.outTokens).toBe(12_345);
    expect(template.match(openai("b", usage(2)).replace('"completion_tokens":2', '"completion_tokens":02'))).toBeNull();
    expect(
      template.match(openai("b", usage(2)).replace('"completion_tokens":2', '"completion_tokens":2.5')),
    ).toBeNull();
  });

  it("makes no template of a chunk in which another member looks like the text", () => {
    const seen = JSON.stringify({ note: '"content":"Hello"', choices: [{ index: 0, delta: { content: "Hello" } }] });
    const other = seen.replace('Hello\\"', 'Hallo\\"');
    expect(matched(seen, other)).toBeNull();
    const twice = JSON.stringify({ first: { content: "Hello" }, choices: [{ index: 0, delta: { content: "Hello" } }] });
    expect(matched(twice, twice)).toBeNull();
  });

  it("stops making templates after many forms that did not occur again", () => {
    const template = new TextTemplate();
    for (let i = 0; i < 40; i++) {
      const seen = openai("a", { obfuscation: `x${i}` });
      expect(template.match(seen)).toBeNull();
      template.learn(seen, JSON.parse(seen));
    }
    expect(template.match(openai("a", { obfuscation: "x39" }))).toBeNull();
  });
});

/** Events of the chunks, read with templates or, if `parsesAll`, only with the JSON parser. */
function eventsOf(chunks: readonly string[], parsesAll: boolean): { events: GenEvent[]; error: unknown } {
  const events: GenEvent[] = [];
  const answer = new AnswerEvents(answerOptions(chatRequest()), (event) => events.push(event));
  try {
    // A space after the object keeps the template from matching; JSON allows it.
    for (const [i, data] of chunks.entries()) answer.take(parsesAll ? data + " ".repeat(i + 1) : data);
    answer.end();
    return { events, error: null };
  } catch (error) {
    return { events, error: String(error) };
  }
}

const text = fc.oneof(
  fc.string({ unit: "grapheme" }),
  fc.constantFrom("", "Hello", '"', "\\", "\n", "\u0000", "\ud83d", "\ude00", "}}]", '","x":"', "data: [DONE]"),
);
const usage = fc.oneof(
  fc.constant(null),
  fc.record({ prompt_tokens: fc.nat(99), completion_tokens: fc.nat(9_999), total_tokens: fc.nat(9_999) }),
);
const delta = fc.record(
  {
    role: fc.constantFrom("assistant", null),
    content: fc.oneof({ weight: 5, arbitrary: text }, { weight: 1, arbitrary: fc.constant(null) }),
    reasoning_content: fc.constantFrom(null, "", "hm"),
    tool_calls: fc.constant(null),
    refusal: fc.constantFrom(null, "no"),
  },
  { requiredKeys: ["content"] },
);
const chunk: fc.Arbitrary<Chunk> = fc.record(
  {
    id: fc.constantFrom("chatcmpl-1", '"content":"Hello"', "x"),
    created: fc.integer({ min: 1_795_351_228, max: 1_795_351_230 }),
    choices: fc.array(
      fc.record(
        {
          index: fc.constantFrom(0, 0, 0, 1),
          delta,
          finish_reason: fc.constantFrom(null, null, null, null, "stop", ""),
        },
        { requiredKeys: ["delta"] },
      ),
      { minLength: 0, maxLength: 2 },
    ),
    system_fingerprint: fc.constantFrom("fp_a", "fp_b"),
    usage,
    error: fc.constant(null),
  },
  { requiredKeys: ["choices"] },
);
/** Streams with long runs of the same form, as servers send them. */
const stream = fc
  .array(fc.tuple(chunk, fc.array(fc.tuple(text, fc.nat(9_999)), { maxLength: 6 })), { maxLength: 5 })
  .map((runs) =>
    runs.flatMap(([form, texts]) => [
      form,
      ...texts.map(([content, tokens]) => {
        const next: Chunk = structuredClone(form);
        const [choice] = next["choices"] as { delta: Record<string, unknown> }[];
        if (choice !== undefined) choice.delta["content"] = content;
        const counts = next["usage"] as Record<string, unknown> | null | undefined;
        if (counts) counts["completion_tokens"] = tokens;
        return next;
      }),
    ]),
  );

describe("AnswerEvents with the template", () => {
  it("emits the same events as with the JSON parser alone, for every stream", () => {
    fc.assert(
      fc.property(stream, fc.boolean(), (chunks, isPlainEnd) => {
        const all = isPlainEnd ? [...chunks, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }] : chunks;
        const data = all.map((value) => JSON.stringify(value));
        expect(eventsOf(data, false)).toEqual(eventsOf(data, true));
      }),
      { numRuns: 3_000 },
    );
  });

  it("reads most chunks of a recorded form without the parser", () => {
    const template = new TextTemplate();
    let parsed = 0;
    for (let i = 0; i < 100; i++) {
      const data = `{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" w${i}"}}],"created":${1_795_351_228 + (i >> 3)},"id":"chatcmpl-P","model":"m","system_fingerprint":"b0","object":"chat.completion.chunk"}`;
      if (template.match(data) === ` w${i}`) continue;
      parsed += 1;
      template.learn(data, JSON.parse(data));
    }
    expect(parsed).toBe(1);
  });
});
