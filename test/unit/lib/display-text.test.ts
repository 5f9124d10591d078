import { describe, expect, it } from "vitest";
import { byteText, printable, printableLine } from "../../../src/lib/display-text.js";

describe("printable", () => {
  it("removes terminal control characters, and keeps text, tabs and line breaks", () => {
    expect(printable("a\u001b[31mb\u0007\u0000c\u009b2Jd\u007f")).toBe("a[31mbc2Jd");
    expect(printable("one\r\ntwo\tthree\r")).toBe("one\ntwo\tthree");
    expect(printable("Grüße, 世界 🎉 ‍")).toBe("Grüße, 世界 🎉 ‍");
  });

  it("removes bidirectional control characters", () => {
    expect(printable("safe\u202egpj.exe\u2066")).toBe("safegpj.exe");
  });
});

describe("printableLine", () => {
  it("is one line for any text", () => {
    expect(printableLine("one\r\n\r\ntwo\u2028three\u0085four\u001b]52;c;x\u0007")).toBe("one two three four]52;c;x");
  });
});

describe("byteText", () => {
  it.each([
    [0, "0 bytes"],
    [999, "999 bytes"],
    [1_000, "1.0 kB"],
    [98_362_432, "98.4 MB"],
    [639_446_688, "639 MB"],
    [5_000_000_000, "5.0 GB"],
    [7_200_000_000_000_000, "7200 TB"],
  ])("writes %d as %s", (bytes, text) => {
    expect(byteText(bytes)).toBe(text);
  });
});
