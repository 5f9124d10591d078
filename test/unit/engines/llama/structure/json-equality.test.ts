import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, it } from "vitest";
import { jsonEqual, useJsonEquality } from "../../../../../src/engines/llama/structure/schema-check.js";

const valid = (schema: object, value: unknown): boolean =>
  useJsonEquality(new Ajv2020({ strict: false })).compile(schema)(value) as boolean;

describe("jsonEqual", () => {
  it.each([
    [{ a: 1, b: [1, { c: null }] }, { b: [1, { c: null }], a: 1 }, true],
    [0, -0, true],
    [[], {}, false],
    [{ a: 1 }, { a: 1, b: 1 }, false],
    [null, {}, false],
    ["1", 1, false],
    [{ toString: "x", valueOf: 1 }, { toString: "x", valueOf: 1 }, true],
    [{ toString: "x" }, { toString: "y" }, false],
    [JSON.parse('{"__proto__": 1}'), {}, false],
  ])("for %j and %j returns %s", (a, b, equal) => {
    expect(jsonEqual(a, b)).toBe(equal);
    expect(jsonEqual(b, a)).toBe(equal);
  });
});

describe("a validator that uses jsonEqual", () => {
  it("compares members that are named like methods (RF-3)", () => {
    const named = { toString: "x", valueOf: 2 };
    expect(valid({ const: named }, { ...named })).toBe(true);
    expect(valid({ enum: [1, named] }, { ...named, valueOf: 3 })).toBe(false);
    expect(valid({ type: "array", uniqueItems: true }, [named, { ...named }])).toBe(false);
    expect(valid({ type: "array", uniqueItems: true }, [named, { toString: "y" }, 1, "1"])).toBe(true);
  });
});
