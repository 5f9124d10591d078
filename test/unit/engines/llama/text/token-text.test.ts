import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TokenText } from "../../../../../src/engines/llama/child/choice-output.js";
import { rounds } from "../../../../support/tier.js";

/** A TokenText for a vocabulary in which each token stands for these bytes. */
function reader(tokens: readonly Uint8Array[]): TokenText {
  return new TokenText((ids) => Buffer.concat(ids.map((id) => tokens[id] ?? new Uint8Array())).toString("utf8"));
}

function outputs(tokens: readonly Uint8Array[]): readonly string[] {
  const text = reader(tokens);
  return [...tokens.map((_, id) => text.push(id)), text.flush()];
}

function bytesOf(text: string): readonly Uint8Array[] {
  return [...Buffer.from(text)].map((byte) => Uint8Array.of(byte));
}

describe("TokenText", () => {
  it("emits whole code points, however their bytes are divided among tokens", () => {
    expect(outputs(bytesOf("a€😀"))).toEqual(["a", "", "", "€", "", "", "", "😀", ""]);
  });

  it("emits text immediately if nothing is pending", () => {
    expect(outputs([Buffer.from("Hello"), Buffer.from(" Wörld")])).toEqual(["Hello", " Wörld", ""]);
  });

  it("emits the text before an incomplete code point immediately", () => {
    expect(outputs([Buffer.from([0x61, 0xe2]), Buffer.from([0x82, 0xac])])).toEqual(["a", "€", ""]);
  });

  it("emits the model's own U+FFFD, in the middle, at the end and in long runs", () => {
    const own = Buffer.from("\uFFFD");
    expect(outputs([own, Buffer.from("x"), own]).join("")).toBe("\uFFFDx\uFFFD");
    expect(outputs(Array.from({ length: 50 }, () => own)).join("")).toBe("\uFFFD".repeat(50));
  });

  it("holds back at most 8 tokens, even of ill-formed text", () => {
    const outs = outputs(Array.from({ length: 33 }, () => Uint8Array.of(0x82)));
    expect(outs.filter((out) => out !== "").map(({ length }) => length)).toEqual([8, 8, 8, 8, 1]);
  });

  it("emits an incomplete code point at the end as U+FFFD", () => {
    expect(outputs([Buffer.from([0x61, 0xf0, 0x9f])])).toEqual(["a", "\uFFFD"]);
  });

  it("emits every text unchanged and in whole code points, however it is divided into tokens", () => {
    const text = fc.string({ unit: "binary", maxLength: 30 });
    fc.assert(
      fc.property(text, fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1 }), (written, sizes) => {
        const bytes = Buffer.from(written);
        const tokens: Uint8Array[] = [];
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = sizes[i % sizes.length] ?? 1;
          tokens.push(bytes.subarray(at, at + size));
          at += size;
        }
        const outs = outputs(tokens);
        expect(outs.join("")).toBe(bytes.toString("utf8"));
        for (const out of outs) expect(Buffer.from(out).toString()).toBe(out);
      }),
      { numRuns: rounds(2_000) },
    );
  });

  it("emits code points one by one even if no token ever ends with a code point", () => {
    const bytes = Buffer.from(`a${"\u{10000}".repeat(60)}b`);
    const tokens = [bytes.subarray(0, 2)];
    for (let at = 2; at < bytes.length; at += 4) tokens.push(bytes.subarray(at, at + 4));
    const outs = outputs(tokens);
    expect(outs.join("")).toBe(bytes.toString());
    expect(outs.filter((out) => out !== "").length).toBeGreaterThan(50);
  });

  it("passes the preceding tokens to the detokenizer", () => {
    const asked: (readonly number[])[] = [];
    const text = new TokenText((ids, before) => {
      asked.push(before);
      return "x".repeat(ids.length);
    });
    for (const id of [1, 2, 3, 4, 5]) text.push(id);
    expect(asked).toEqual([[], [1], [1, 2], [1, 2, 3], [2, 3, 4]]);
  });
});
