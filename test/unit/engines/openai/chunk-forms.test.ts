import fc from "fast-check";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { GenEvent } from "../../../../src/domain/engine/engine.js";
import { AnswerEvents } from "../../../../src/engines/openai/answer/answer-events.js";
import { ChunkForms, ChunkReader } from "../../../../src/engines/openai/answer/chunk-forms.js";
import { answerOptions } from "../../../support/upstream/answer-options.js";
import { chatRequest } from "../../../support/upstream/engine-calls.js";

type Chunk = Readonly<Record<string, unknown>>;

afterEach(() => {
  vi.restoreAllMocks();
});

/** Values of the chunks of one answer without id and time, which have no effect, and how many chunks were parsed as a whole. */
function readAll(chunks: readonly string[], forms = new ChunkForms()): { values: unknown[]; parsed: number } {
  const reader = new ChunkReader(forms);
  const parse = vi.spyOn(JSON, "parse").mockClear();
  const values = chunks.map((data) => withoutIdentity(structuredClone(reader.read(data))));
  return { values, parsed: parse.mock.calls.filter(([text]) => chunks.includes(text)).length };
}

function parsedAll(chunks: readonly string[]): unknown[] {
  return chunks.map((data) => {
    try {
      return withoutIdentity(JSON.parse(data));
    } catch {
      return undefined;
    }
  });
}

function withoutIdentity(chunk: unknown): unknown {
  if (typeof chunk !== "object" || chunk === null) return chunk;
  const { id: _, created: __, ...rest } = chunk as Chunk;
  return rest;
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

describe("forms of chunks", () => {
  it("reads a chunk that has the form of an earlier one without the parser", () => {
    const chunks = [openai("Hello"), openai(" w\u00f6rld \u{1f600}"), openai("")];
    const { values, parsed } = readAll(chunks);
    expect(values).toEqual(parsedAll(chunks));
    expect(parsed).toBe(1);
  });

  it("reads the chunks of later answers, which have another id and time", () => {
    const forms = new ChunkForms();
    const answer = (id: string, created: number, tokens: number): string[] => [
      openai("", { id, created }).replace('"content"', '"role":"assistant","content"'),
      openai(`text of ${id}`, { id, created }),
      openai("", { id, created }).replace('{"content":""}', "{}").replace("null", '"stop"'),
      openai("", { id, created, choices: [], usage: { prompt_tokens: tokens, completion_tokens: 2, total_tokens: 9 } }),
    ];
    expect(readAll(answer("first", 1, 7), forms).parsed).toBe(4);
    const second = answer("second", 2, 8);
    const { values, parsed } = readAll(second, forms);
    expect(values).toEqual(parsedAll(second));
    expect(parsed).toBe(0);
  });

  it("decodes escapes in the text", () => {
    const chunks = ["a", 'say "hi"', "back\\slash", "\\", "line\nbreak", "\ud83d", `${"long ".repeat(20)}"\t`].map(
      (text) => openai(text),
    );
    const { values, parsed } = readAll(chunks);
    expect(values).toEqual(parsedAll(chunks));
    expect(parsed).toBe(1);
  });

  it("parses chunks that differ in another place", () => {
    const seen = openai("Hello");
    for (const other of [
      seen.replace("null", '"stop"'),
      seen.replace('"index":0', '"index":1'),
      seen.replace('"m"', '"n"'),
      `${seen} `,
      seen.replace('"created":5', '"created":5.5'),
      openai("", { choices: [{ index: 0, delta: { content: null }, finish_reason: null }] }),
    ]) {
      const { values, parsed } = readAll([seen, other]);
      expect(values[1], other).toEqual(parsedAll([other])[0]);
      expect(parsed, other).toBe(2);
    }
  });

  it("takes nothing for a chunk that is not JSON", () => {
    const seen = openai("Hello");
    for (const other of [
      seen.slice(0, -1),
      seen.replace("Hello", "tab\tinside"),
      seen.replace("Hello", "wrong \\x escape"),
      seen.replace("chatcmpl-1", "line\nbreak"),
      seen.replace('"created":5', '"created":05'),
      seen.replace('"created":5', '"created":'),
      seen.replace("Hello", `${"long ".repeat(20)}\u0001`),
    ]) {
      expect(parsedAll([other]), other).toEqual([undefined]);
      expect(readAll([seen, other]).values[1], other).toBeUndefined();
    }
  });

  it("takes the counts of tokens from each chunk", () => {
    const usage = (out: number) => ({ usage: { prompt_tokens: 10, total_tokens: 10 + out, completion_tokens: out } });
    const chunks = [openai("a", usage(1)), openai("b", usage(12_345)), openai("c", usage(123_456_789_012))];
    const { values, parsed } = readAll(chunks);
    expect(values).toEqual(parsedAll(chunks));
    expect(parsed).toBe(1);
  });

  it.each([
    ["in a text", { note: '"content":"Hello"' }],
    ["in another object", { first: { content: "Hello", id: "x", created: 1, completion_tokens: 2 } }],
    ["as the first of two", { choices: [{ index: 0, delta: { content: "Hello" }, id: "call_1", text: "t" }] }],
  ])("takes no member for the text that only looks like it: %s", (_, more) => {
    const seen = openai("Hello", more);
    const chunks = [seen, seen.replaceAll("Hello", "Hallo"), seen.replaceAll("call_1", "call_2"), seen];
    expect(readAll(chunks).values).toEqual(parsedAll(chunks));
  });

  it("reads the last of two members of the same name", () => {
    const twice = (first: string, last: string) =>
      `{"choices":[{"delta":{"content":"${first}","content":"${last}"}}],"id":"${first}","id":"${last}"}`;
    const chunks = [twice("a", "b"), twice("a", "c"), twice("d", "e")];
    expect(readAll(chunks).values).toEqual(parsedAll(chunks));
  });

  it("keeps the forms that were used last", () => {
    const forms = new ChunkForms();
    const of = (model: string) => openai("text", { model });
    readAll([of("kept")], forms);
    for (let i = 0; i < 40; i++) {
      readAll([of(`model ${i}`)], forms);
      expect(readAll([of("kept")], forms).parsed).toBe(0);
    }
    expect(readAll([of("model 39")], forms).parsed).toBe(0);
    expect(readAll([of("model 0")], forms).parsed).toBe(1);
  });

  it("makes no more forms for an answer whose chunks have none in common", () => {
    const chunks = Array.from({ length: 40 }, (_, i) => openai("a", { obfuscation: "x".repeat(i) }));
    const forms = new ChunkForms();
    const parse = vi.spyOn(JSON, "parse");
    readAll(chunks, forms);
    const inAll = parse.mock.calls.length;
    expect(inAll).toBeLessThan(chunks.length + 10);
    expect(readAll(chunks.slice(-1), forms).parsed).toBe(1);
  });
});

interface Events {
  readonly events: readonly GenEvent[];
  readonly error: unknown;
}

/**
 * The events of each stream. The chunks of all streams are read in turns, with the same forms or, if `parsesAll`, only with
 * the JSON parser.
 */
function eventsOf(streams: readonly (readonly string[])[], parsesAll: boolean): readonly Events[] {
  const forms = new ChunkForms();
  const answers = streams.map((chunks) => {
    const events: GenEvent[] = [];
    const answer = new AnswerEvents(answerOptions(chatRequest(), forms), (event) => events.push(event));
    const result: { events: GenEvent[]; error: unknown } = { events, error: null };
    const attempt = (work: () => void): void => {
      if (result.error !== null) return;
      try {
        work();
      } catch (error) {
        result.error = String(error);
      }
    };
    return { chunks, answer, result, attempt };
  });
  for (let i = 0; answers.some(({ chunks }) => i < chunks.length); i++) {
    for (const { chunks, answer, attempt } of answers) {
      const data = chunks[i];
      // Spaces after the object are part of its form; JSON allows them.
      if (data !== undefined) attempt(() => answer.take(parsesAll ? data + " ".repeat(i + 1) : data));
    }
  }
  for (const { answer, attempt } of answers) attempt(() => answer.end());
  return answers.map(({ result }) => result);
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

const ended = fc.tuple(stream, fc.boolean()).map(([chunks, isPlainEnd]) => {
  const all = isPlainEnd ? [...chunks, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }] : chunks;
  return all.map((value) => JSON.stringify(value));
});

describe("events of answers", () => {
  it("are the same as with the JSON parser alone, for all streams read in turns", () => {
    fc.assert(
      fc.property(fc.array(ended, { minLength: 1, maxLength: 3 }), (streams) => {
        expect(eventsOf(streams, false)).toEqual(eventsOf(streams, true));
      }),
      { numRuns: 3_000 },
    );
  });

  it("need the parser for one chunk of a recorded form", () => {
    const chunks = Array.from(
      { length: 100 },
      (_, i) =>
        `{"choices":[{"finish_reason":null,"index":0,"delta":{"content":" w${i}"}}],"created":${1_795_351_228 + (i >> 3)},"id":"chatcmpl-P","model":"m","system_fingerprint":"b0","object":"chat.completion.chunk"}`,
    );
    const parse = vi.spyOn(JSON, "parse");
    const [{ events } = { events: [] }] = eventsOf([chunks], false);
    expect(parse.mock.calls.filter(([text]) => chunks.includes(text))).toHaveLength(1);
    expect(events.filter(({ type }) => type === "text")).toHaveLength(100);
  });
});
