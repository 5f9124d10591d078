import { describe, expect, it } from "vitest";
import { BodyExcerpt } from "../../../src/outbound/webhook-sender.js";

function excerptOf(...chunks: readonly (string | Uint8Array)[]): string {
  const excerpt = new BodyExcerpt();
  for (const chunk of chunks) excerpt.add(Buffer.from(chunk as string));
  return excerpt.text();
}

describe("BodyExcerpt", () => {
  it("keeps the first 2 KiB, however the body is split (WH-43)", () => {
    expect(excerptOf("a".repeat(3_000))).toBe("a".repeat(2_048));
    expect(excerptOf(...new Array<string>(3_000).fill("b"))).toBe("b".repeat(2_048));
    expect(excerptOf("c".repeat(2_047), "de")).toBe(`${"c".repeat(2_047)}d`);
  });

  it("also counts the bytes that it does not keep", () => {
    const excerpt = new BodyExcerpt();
    excerpt.add(Buffer.alloc(100_000));
    excerpt.add(Buffer.alloc(1));
    expect(excerpt.bytes).toBe(100_001);
  });

  it("leaves out control characters and a character that is incomplete at the end (WH-43)", () => {
    expect(excerptOf("x".repeat(2_047), "é")).toBe("x".repeat(2_047));
    expect(excerptOf("né")).toBe("né");
    expect(excerptOf(Buffer.from("né").subarray(0, 2))).toBe("n");
    expect(excerptOf("a\u0000b\u001b[31mc\r\nd\te\u202ef")).toBe("ab[31mc\nd\tef");
  });

  it("the text of invalid UTF-8 has at most 2 KiB (WH-43)", () => {
    const text = excerptOf(Buffer.alloc(2_048, 0xff));
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(2_048);
    expect(text).toMatch(/^\ufffd+$/);
  });

  it("the text of an absent body is empty", () => {
    expect(excerptOf()).toBe("");
  });
});
