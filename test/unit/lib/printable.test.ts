import { describe, expect, it } from "vitest";
import { printable, printableLine } from "../../../src/lib/printable.js";

describe("printable", () => {
  it("takes out what steers a terminal and leaves text, tabs and line breaks", () => {
    expect(printable("a\u001b[31mb\u0007\u0000c\u009b2Jd\u007f")).toBe("a[31mbc2Jd");
    expect(printable("one\r\ntwo\tthree\r")).toBe("one\ntwo\tthree");
    expect(printable("Grüße, 世界 🎉 ‍")).toBe("Grüße, 世界 🎉 ‍");
  });

  it("takes out marks that turn the direction of writing around", () => {
    expect(printable("safe\u202egpj.exe\u2066")).toBe("safegpj.exe");
  });
});

describe("printableLine", () => {
  it("is one line whatever the text says", () => {
    expect(printableLine("one\r\n\r\ntwo\u2028three\u0085four\u001b]52;c;x\u0007")).toBe("one two three four]52;c;x");
  });
});
