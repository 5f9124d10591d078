import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { eventBytesMax, SseReader } from "../../../../src/engines/openai/answer/sse-reader.js";
import { InvalidResponse } from "../../../../src/engines/openai/protocol/upstream-failure.js";

/** The data of all events in a stream that arrives in these reads. */
function read(...reads: readonly (string | Buffer)[]): { readonly data: string[]; readonly errors: boolean[] } {
  const reader = new SseReader();
  const data: string[] = [];
  const errors: boolean[] = [];
  const drain = (): void => {
    for (let next = reader.next(); next !== null; next = reader.next()) {
      data.push(next);
      errors.push(reader.lastIsError);
    }
  };
  for (const part of reads) {
    reader.push(Buffer.from(part));
    drain();
  }
  reader.end();
  drain();
  return { data, errors };
}

describe("SseReader", () => {
  it.each([
    ["LF", "\n"],
    ["CRLF", "\r\n"],
    ["CR", "\r"],
  ])("reads events whose lines end with %s, wherever the stream is split", (_, end) => {
    const stream = Buffer.from(`data: {"a":1}${end}${end}: ping${end}${end}data:é 日本 😀${end}data: two${end}${end}`);
    const expected = ['{"a":1}', "é 日本 😀\ntwo"];
    expect(read(stream).data).toEqual(expected);
    for (let at = 0; at <= stream.length; at++) {
      expect(read(stream.subarray(0, at), stream.subarray(at)).data, `split at ${at}`).toEqual(expected);
    }
    expect(read(...Array.from(stream, (byte) => Buffer.from([byte]))).data).toEqual(expected);
  });

  it("reads lines that end in different ways within one stream", () => {
    expect(read("data: 1\r\n\ndata: 2\r\rdata: 3\n\r\n").data).toEqual(["1", "2", "3"]);
  });

  it("removes a byte order mark, split or not", () => {
    const stream = Buffer.from("\ufeffdata: x\n\n");
    expect(read(stream).data).toEqual(["x"]);
    expect(read(stream.subarray(0, 2), stream.subarray(2)).data).toEqual(["x"]);
  });

  it("ignores comments, ids, retries, unknown fields and events without data", () => {
    expect(
      read(": OPENROUTER PROCESSING\n\nid: 1\nretry: 5\nfoo: bar\ndatax: no\n\nevent: ping\n\ndata: y\n\n").data,
    ).toEqual(["y"]);
  });

  it("reads data without a space after the colon, with several spaces, and without a value", () => {
    expect(read("data:a\n\ndata:  b\n\ndata\n\ndata:\n\n").data).toEqual(["a", " b", "", ""]);
  });

  it("returns the last event although the stream ends within it", () => {
    expect(read("data: a\n\ndata: b").data).toEqual(["a", "b"]);
    expect(read("data: a\n\ndata: b\n").data).toEqual(["a", "b"]);
  });

  it("marks events with the name `error` and events with llama.cpp's field `error`", () => {
    expect(read('event: error\ndata: {"m":1}\n\ndata: x\n\nerror: {"code":500}\n\n')).toEqual({
      data: ['{"m":1}', "x", '{"code":500}'],
      errors: [true, false, true],
    });
  });

  it("rejects a line and an event above the maximum size (REL-6)", () => {
    const half = Buffer.alloc(eventBytesMax / 2 + 1, "x");
    expect(() => read("data: ", half, half)).toThrow(InvalidResponse);
    expect(() =>
      read(Buffer.concat([Buffer.from("data: "), half, Buffer.from("\ndata: "), half, Buffer.from("\n")])),
    ).toThrow(InvalidResponse);
  });

  it("takes linear time for many events in one read", () => {
    const stream = Buffer.from('data: {"x":"y"}\n\n'.repeat(200_000));
    const reader = new SseReader();
    reader.push(stream);
    const startedAtMs = performance.now();
    let events = 0;
    while (reader.next() !== null) events += 1;
    expect(events).toBe(200_000);
    // It takes about 0.1 s; a search to the end of the read for each event would take minutes.
    expect(performance.now() - startedAtMs).toBeLessThan(5_000);
  });

  it("returns the written events for arbitrary texts and splits", () => {
    const lines = fc.array(
      fc.string({ unit: "grapheme" }).map((text) => text.replace(/[\r\n]/g, "")),
      { minLength: 1 },
    );
    fc.assert(
      fc.property(
        fc.array(lines),
        fc.constantFrom("\n", "\r", "\r\n"),
        fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
        (events, end, sizes) => {
          const stream = Buffer.from(
            events.map((event) => `${event.map((line) => `data: ${line}${end}`).join("")}${end}`).join(""),
          );
          const reads: Buffer[] = [];
          for (let at = 0; at < stream.length; ) {
            const size = sizes.next().value ?? 1;
            reads.push(stream.subarray(at, at + size));
            at += size;
          }
          expect(read(...reads).data).toEqual(events.map((event) => event.join("\n")));
        },
      ),
    );
  });
});
