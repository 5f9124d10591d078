import { describe, expect, it } from "vitest";
import { responseGrammar } from "../../../../../src/engines/llama/structure/response-grammar.js";
import { compileCheck } from "../../../../../src/engines/llama/structure/schema-check.js";
import { jsonText } from "../../../../../src/engines/llama/structure/string-grammar.js";
import { accepted, refusal } from "./grammar-of.js";

const unenforceable: readonly (readonly [keyword: string, schema: Record<string, unknown>, value: unknown])[] = [
  ["pattern", { type: "string", pattern: "^(a+)+$" }, "b"],
  ["format", { type: "string", format: "regex" }, "("],
  ["patternProperties", { type: "object", patternProperties: { a: false } }, { a: 1 }],
  ["propertyNames", { type: "object", propertyNames: { pattern: "^b" } }, { a: 1 }],
  ["dependentRequired", { type: "object", dependentRequired: { a: ["b"] } }, { a: 1 }],
  ["dependentSchemas", { type: "object", dependentSchemas: { a: false } }, { a: 1 }],
  ["not", { type: "integer", not: { const: 1 } }, 1],
  ["if", JSON.parse('{"type":"integer","if":{"const":1},"then":false}'), 1],
  ["contains", { type: "array", contains: { const: 1 } }, [2]],
  ["uniqueItems", { type: "array", uniqueItems: true }, [1, 1]],
  ["multipleOf", { type: "integer", multipleOf: 2 }, 3],
  ["unevaluatedProperties", { type: "object", unevaluatedProperties: false }, { a: 1 }],
  ["$ref", { $ref: "https://example.com/schema" }, 1],
  ["maxLength", { type: "string", maxLength: 1_000_000 }, "a"],
  ["maxItems", { type: "array", maxItems: 1_000_000 }, []],
  ["minProperties", { type: "object", minProperties: 2 }, {}],
];

describe("keywords that a grammar cannot enforce", () => {
  it.each(unenforceable)(
    "%s is rejected when strict, with its location and name (TOOL-14, RF-4, SEC-10)",
    (keyword, schema) => {
      const { message, path } = refusal({ type: "object", properties: { "a/b": schema } });
      expect(path).toBe("/properties/a~1b");
      expect(message).toContain(`'${keyword}'`);
    },
  );

  it.each(unenforceable)(
    "%s is left out of the grammar and of the check of answers when not strict (SEC-10)",
    (_, schema, value) => {
      expect(accepted(schema, [jsonText(value)], "lenient")).toHaveLength(1);
      expect(compileCheck(schema, "lenient")(value)).toBeNull();
    },
  );

  it("are accepted in strict mode where they restrict nothing", () => {
    const schema = {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      $id: "https://example.com/a",
      type: "object",
      title: "t",
      deprecated: true,
      propertyNames: { type: "string" },
      additionalProperties: { type: "integer", multipleOf: 1, format: "int64", default: 5, "x-mine": {} },
    };
    expect(accepted(schema, ['{"a": 1}'])).toHaveLength(1);
  });
});

describe("invalid schemas", () => {
  it.each([
    ['{"type":"text"}', ""],
    ['{"type":[]}', ""],
    ['{"properties":{"a":{"enum":5}}}', "/properties/a"],
    ['{"properties":{"a":5}}', ""],
    ['{"required":[1]}', ""],
    ['{"items":{"minLength":-1}}', "/items"],
    ['{"minimum":"1"}', ""],
    ['{"$ref":"#/$defs/a"}', ""],
    ["[]", ""],
    ["5", ""],
  ])("%s is refused in both modes with its location (RF-4)", (json, path) => {
    for (const mode of ["strict", "lenient"] as const) expect(refusal(JSON.parse(json), mode).path).toBe(path);
  });

  it("a text that is not JSON is refused (RF-4)", () => {
    expect(() => responseGrammar({ type: "json_schema", schemaJson: "{", strict: true })).toThrow("not JSON");
  });
});

describe("compileCheck", () => {
  it("states the location and the fault of a value", () => {
    const check = compileCheck({ type: "object", properties: { a: { type: "integer", maximum: 5 } } }, "strict");
    expect(check({ a: 5 })).toBeNull();
    expect(check({ a: 6 })).toBe("/a must be <= 5");
    expect(check([])).toBe("must be object");
  });

  it("enforces every keyword that the grammar enforces", () => {
    const schema = {
      type: "object",
      properties: {
        date: { type: "string", format: "date" },
        pair: { prefixItems: [{ type: "integer" }], items: false, type: "array" },
        old: { items: [{ type: "integer" }], additionalItems: false, type: "array" },
        self: { $ref: "#" },
      },
      required: ["date"],
      additionalProperties: false,
    };
    const check = compileCheck(schema, "strict");
    expect(check({ date: "2026-01-01", pair: [1], old: [1], self: { date: "2026-01-02" } })).toBeNull();
    for (const value of [{ date: "x" }, { pair: [1, 2] }, { old: [1, 2] }, { self: {} }, { other: 1 }]) {
      expect(check({ date: "2026-01-01", ...value })).toEqual(expect.any(String));
    }
    expect(check({})).toContain("date");
  });

  it("ends a check that takes too long (SEC-10)", () => {
    const self = { $ref: "#" };
    const schema = {
      anyOf: [
        { type: "object", properties: { a: self }, required: ["a"], additionalProperties: false },
        { type: "object", properties: { a: self, b: { type: "null" } }, required: ["a"] },
        { type: "null" },
      ],
    };
    const value = Array.from({ length: 60 }).reduce<unknown>((inner) => ({ a: inner }), 5);
    expect(compileCheck(schema, "lenient")(value)).toBe("it could not be checked in 1000 ms");
  });
});
