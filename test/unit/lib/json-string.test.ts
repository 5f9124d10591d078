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

  it("writes any text as JSON.stringify does", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => jsonString(text) === JSON.stringify(text)));
  });
});
