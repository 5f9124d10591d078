import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonString } from "../../../src/lib/json-string.js";

describe("a text as a JSON string", () => {
  it.each(["", "plain text", " !#[]~", '"', "\\", "\n", "\u0000", "\u001f", "\u007f", "é", "\u2028", "\ud800", "😀"])(
    "%j is written as JSON.stringify writes it",
    (text) => {
      expect(jsonString(text)).toBe(JSON.stringify(text));
    },
  );

  it("writes long texts as JSON.stringify does, whatever character they have at any place", () => {
    for (const length of [128, 131, 16_384, 40_001]) {
      const text = "a".repeat(length);
      for (const character of [
        '"',
        "\\",
        "\n",
        "\u0000",
        "\u001f",
        " ",
        "~",
        "\u007f",
        "\u0080",
        "é",
        "\u0141",
        "\ud800",
        "😀",
      ]) {
        for (const at of [0, 1, 2, 3, length >> 1, length - 2, length - 1, length]) {
          const changed = text.slice(0, at) + character + text.slice(at);
          if (jsonString(changed) !== JSON.stringify(changed))
            expect.fail(`${JSON.stringify(character)} at ${at} of ${length}`);
        }
      }
    }
  });

  it("writes any text as JSON.stringify does", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => jsonString(text) === JSON.stringify(text)));
  });
});
