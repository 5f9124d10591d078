import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JsonScanner } from "../../../../../src/engines/llama/chat/json-scanner.js";
import { rounds } from "../../../../support/tier.js";

/** Whether the scanner accepts the text as one whole value; a space after it ends a number. */
function accepts(text: string): boolean {
  const scanner = new JsonScanner();
  for (const character of `${text} `) if (!scanner.feed(character)) return false;
  return scanner.expects === "end";
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

describe("JsonScanner", () => {
  it("accepts every text that JSON.parse accepts", () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(undefined, 1, "\t"), (json, space) => {
        expect(accepts(JSON.stringify(JSON.parse(json), null, space))).toBe(true);
      }),
      { numRuns: rounds(2_000) },
    );
  });

  it("refuses every text that JSON.parse refuses", () => {
    const unit = fc.constantFrom(
      ...'{}[]:,"\\/ue01-+.aftrnls \n\u0001'.split(""),
      "true",
      "null",
      '"a"',
      "1e",
      "\\u00",
    );
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 12 }), (text) => {
        expect(accepts(text)).toBe(parses(text));
      }),
      { numRuns: rounds(20_000) },
    );
  });

  it.each([
    "01",
    "1.",
    ".5",
    "-",
    "1e",
    "+1",
    "1e+",
    "--1",
    "-01",
    "0x1",
    "1.e1",
    "tru",
    "nul ",
    '"\\x"',
    '"\\u12g4"',
    '"\n"',
    "[1,]",
    '{"a":1,}',
    "{,}",
    "[1 2]",
    '{"a" 1}',
    "{1:2}",
    "]",
    "[}",
    "",
  ])("refuses %j", (text) => {
    expect(accepts(text)).toBe(false);
  });

  it.each(["0", "-0", "10.5e-07", "1E+2", "true", "false", "null", '"\\u00e9\\n\\/"', "[]", "{}", " [ { } , [ ] ] "])(
    "accepts %j",
    (text) => {
      expect(accepts(text)).toBe(true);
    },
  );

  it("accepts 512 levels and no more", () => {
    expect(accepts("[".repeat(512) + "]".repeat(512))).toBe(true);
    expect(accepts("[".repeat(513) + "]".repeat(513))).toBe(false);
  });
});
