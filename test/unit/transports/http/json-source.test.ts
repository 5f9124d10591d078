import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JsonSource } from "../../../../src/transports/http/json-scan.js";

describe("source text of JSON values", () => {
  it("keeps numbers, key order, whitespace and escapes (PROTO-4)", () => {
    const schema = '{ "z": 9007199254740993, "2":1,\n "1": 1.0e0, "e":"\\u00e9\\"]}" }';
    const source = new JsonSource(`{"tools":[{"type":"x"}, {"function" : {"parameters":${schema} }}]}`);
    expect(source.textAt("tools[1].function.parameters")).toBe(schema);
  });

  it("is the text of the last value of a repeated key", () => {
    expect(new JsonSource('{"a":1,"a":[2]}').textAt("a")).toBe("[2]");
  });

  it("is found for a key that is written with escapes", () => {
    expect(new JsonSource('{"\\u0061b":true}').textAt("ab")).toBe("true");
  });

  it("is undefined for an absent path", () => {
    const source = new JsonSource('{"a":[1]}');
    for (const path of ["b", "a[1]", "a[0].b", "a.x"]) expect(source.textAt(path)).toBeUndefined();
  });

  it("is found in one pass over the text for any number and depth of values (E-4)", () => {
    const depth = 40;
    const padding = '"text","text",'.repeat(5_000);
    const levels = Array.from({ length: depth }, () => `{"pad":[${padding}0],"next":`);
    const text = `{"first":{"a":1},"deep":${levels.join("")}1${"}".repeat(depth)}}`;
    const costMs = (path: string): number => {
      const costs = Array.from({ length: 4 }, () => {
        const { user } = process.cpuUsage();
        new JsonSource(text).textAt(path);
        return (process.cpuUsage().user - user) / 1_000;
      });
      return Math.min(...costs);
    };
    expect(costMs(`deep${".next".repeat(depth)}`)).toBeLessThan(5 * Math.max(costMs("first.a"), 1));
  });

  it("is found for every value of any JSON", () => {
    const key = fc.string({ minLength: 1 }).filter((text) => !/[.[\]]/.test(text) && text !== "__proto__");
    const value = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: "small" },
        fc.jsonValue({ maxDepth: 0 }),
        fc.array(tie("value")),
        fc.dictionary(key, tie("value")),
      ),
    })).value;
    fc.assert(
      fc.property(fc.dictionary(key, value), fc.boolean(), (object, isIndented) => {
        const source = new JsonSource(JSON.stringify(object, null, isIndented ? 2 : 0));
        const check = (at: unknown, path: string): void => {
          expect(JSON.parse(source.textAt(path) ?? "nothing")).toEqual(JSON.parse(JSON.stringify(at)));
          if (typeof at !== "object" || at === null) return;
          for (const [name, child] of Object.entries(at))
            check(child, Array.isArray(at) ? `${path}[${name}]` : `${path}.${name}`);
        };
        for (const [name, child] of Object.entries(object)) check(child, name);
      }),
    );
  });
});
