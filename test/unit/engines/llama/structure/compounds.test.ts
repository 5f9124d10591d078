import { describe, expect, it } from "vitest";
import { Matcher } from "../../../../support/gbnf/match.js";
import { accepted, grammarOf, refusal } from "./grammar-of.js";

const integer = { type: "integer" };

describe("grammar of objects", () => {
  it("allows properties in the schema's order and requires the required ones", () => {
    const schema = { type: "object", properties: { a: integer, b: integer, c: integer }, required: ["b"] };
    const right = ['{"b": 1}', '{"a": 1, "b": 2}', '{"b": 1, "c": 2}', '{"a": 1, "b": 2, "c": 3}'];
    const wrong = [
      "{}",
      '{"a": 1}',
      '{"b": 1, "a": 2}',
      '{"b": 1, "b": 1}',
      '{"b": 1,}',
      '{"b": 1, "d": 2}',
      '{"b":1}',
    ];
    expect(accepted(schema, [...right, ...wrong])).toEqual(right);
  });

  it("has a number of rules proportional to the properties, not to their combinations", () => {
    const names = Array.from({ length: 94 }, (_, index) => `p${index}`);
    const schema = { type: "object", properties: Object.fromEntries(names.map((name) => [name, integer])) };
    const grammar = grammarOf(schema);
    expect(grammar.size).toBeLessThan(2 * names.length);
    const text = `{${["p3", "p50", "p93"].map((name) => `"${name}": 1`).join(", ")}}`;
    const { matches, pathsMax } = new Matcher(grammar).match(text);
    expect(matches).toBe(true);
    expect(pathsMax).toBeLessThanOrEqual(names.length + 1);
  });

  it("allows unlisted properties that the schema describes, under names that are not listed", () => {
    const schema = { type: "object", properties: { ab: integer }, additionalProperties: { type: "boolean" } };
    const right = ["{}", '{"ab": 1}', '{"a": true}', '{"abc": true, "x": false}', '{"ab": 1, "b": true}'];
    expect(accepted(schema, [...right, '{"ab": true}', '{"": true}', '{"x": 1}', '{"\\u0061b": true}'])).toEqual(right);
    expect(accepted({ ...schema, additionalProperties: false }, right)).toEqual(["{}", '{"ab": 1}']);
    expect(accepted({ type: "object" }, ["{}", '{"any": [1, {"x": null}]}'])).toHaveLength(2);
  });

  it("keeps bounds on the number of properties that a grammar can count", () => {
    const map = { type: "object", additionalProperties: integer };
    const texts = ["{}", '{"a": 1}', '{"a": 1, "b": 2}', '{"a": 1, "b": 2, "c": 3}'];
    expect(accepted({ ...map, minProperties: 1, maxProperties: 2 }, texts)).toEqual(texts.slice(1, 3));
    expect(accepted({ ...map, maxProperties: 0 }, texts)).toEqual(["{}"]);
    const listed = { type: "object", properties: { a: integer, b: integer }, minProperties: 1 };
    expect(accepted(listed, texts)).toEqual(texts.slice(1, 3));
    expect(refusal({ ...map, minProperties: 2 }).message).toContain("minProperties");
  });

  it("writes every property name in the same form as JSON.stringify", () => {
    const names = ["", 'a "b"', "line\nend", "日本", "🙂", "]-^", "constructor", "\u0001"];
    const schema = {
      type: "object",
      properties: Object.fromEntries(names.map((name) => [name, integer])),
      required: names,
    };
    const text = `{${names.map((name) => `${JSON.stringify(name)}: 1`).join(", ")}}`;
    expect(accepted(schema, [text])).toEqual([text]);
  });

  it("refuses the name __proto__ when strict, and never writes it otherwise", () => {
    const schema = JSON.parse(
      '{"type":"object","properties":{"__proto__":{"type":"integer"}},"required":["__proto__"]}',
    );
    expect(refusal(schema).message).toContain("__proto__");
    expect(accepted(schema, ["{}", '{"__proto__": 1}'], "lenient")).toEqual(["{}"]);
  });
});

describe("grammar of arrays", () => {
  it("enforces the schema and the number of items", () => {
    const texts = ["[]", "[1]", "[1, 2]", "[1, 2, 3]", "[1,2]", "[true]", "[1, ]"];
    expect(accepted({ type: "array", items: integer }, texts)).toEqual(texts.slice(0, 4));
    expect(accepted({ type: "array", items: integer, minItems: 1, maxItems: 2 }, texts)).toEqual(["[1]", "[1, 2]"]);
    expect(accepted({ type: "array", items: integer, minItems: 3 }, texts)).toEqual(["[1, 2, 3]"]);
    expect(accepted({ type: "array", items: integer, maxItems: 0 }, texts)).toEqual(["[]"]);
    expect(accepted({ type: "array", items: false }, texts)).toEqual(["[]"]);
  });

  it("enforces a schema for each of the first items, in both spellings of the keyword", () => {
    const texts = ["[]", "[1]", "[1, true]", "[1, true, null]", "[true]", "[1, true, 1]"];
    const rest = { type: "null" };
    const first = [integer, { type: "boolean" }];
    expect(accepted({ prefixItems: first, items: rest }, texts)).toEqual(texts.slice(0, 4));
    expect(accepted({ items: first, additionalItems: rest, minItems: 2 }, texts)).toEqual(texts.slice(2, 4));
    expect(accepted({ type: "array", prefixItems: first, items: false }, texts)).toEqual(texts.slice(0, 3));
  });
});

describe("grammar of combinations", () => {
  it("allows any branch of anyOf, combined with its sibling keywords", () => {
    const schema = {
      type: "object",
      properties: { a: integer, b: integer },
      anyOf: [{ required: ["a"] }, { required: ["b"] }],
    };
    const texts = ["{}", '{"a": 1}', '{"b": 1}', '{"a": 1, "b": 2}'];
    expect(accepted(schema, texts)).toEqual(texts.slice(1));
  });

  it("merges allOf: each property satisfies all of its schemas", () => {
    const schema = {
      allOf: [
        { type: "object", properties: { a: integer }, required: ["a"] },
        { properties: { a: { minimum: 5 }, b: { type: "null" } } },
      ],
    };
    const right = ['{"a": 5}', '{"a": 6, "b": null}'];
    expect(accepted(schema, [...right, '{"a": 4}', "{}", '{"b": null}'])).toEqual(right);
  });

  it("follows references, recursive ones too", () => {
    const schema = {
      $ref: "#/$defs/no%20de",
      $defs: { "no de": { type: "object", properties: { next: { $ref: "#" } }, additionalProperties: false } },
    };
    const right = ["{}", '{"next": {"next": {}}}'];
    expect(accepted(schema, [...right, '{"next": 1}'])).toEqual(right);
  });

  it("refuses schemas that refer to themselves without an end or without a value (RF-4)", () => {
    expect(refusal({ $ref: "#" }, "lenient").message).toContain("refers to itself");
    expect(refusal({ anyOf: [{ $ref: "#" }, integer] }, "lenient").message).toContain("refers to itself");
    const endless = { type: "object", properties: { a: { $ref: "#" } }, required: ["a"] };
    expect(refusal(endless, "lenient").message).toContain("no finite value");
  });

  it("refuses oneOf when strict, and reads it as anyOf when lenient (RF-4)", () => {
    const shape = (kind: string, name: string) => ({
      type: "object",
      properties: { kind: { const: kind }, [name]: integer },
      required: ["kind", name],
    });
    const texts = ['{"kind": "circle", "r": 1}', '{"kind": "square", "a": 1}', '{"kind": "circle", "a": 1}'];
    const branches = [shape("circle", "r"), shape("square", "a")];
    expect(accepted({ anyOf: branches }, texts)).toEqual(texts.slice(0, 2));
    expect(refusal({ oneOf: branches }).message).toContain("'oneOf' cannot be enforced");
    expect(accepted({ oneOf: branches }, texts, "lenient")).toEqual(texts.slice(0, 2));
    const overlapping = { oneOf: [{ type: "number" }, integer] };
    expect(refusal(overlapping).message).toContain("use 'anyOf'");
    expect(accepted(overlapping, ["1", "1.5"], "lenient")).toEqual(["1", "1.5"]);
  });

  it("does not need more paths with each level of a schema that contains itself", () => {
    const self = { $ref: "#" };
    const schema = {
      anyOf: [
        { type: "object", properties: { a: self }, required: ["a"] },
        { type: "object", properties: { a: self, b: integer }, required: ["a"] },
        { type: "null" },
      ],
    };
    expect(refusal(schema).message).toContain("begin alike");
    const text = `${'{"a": '.repeat(40)}null${"}".repeat(40)}`;
    const { matches, pathsMax } = new Matcher(grammarOf(schema, "lenient")).match(text);
    expect(matches).toBe(true);
    expect(pathsMax).toBeLessThan(10);
  });

  it("refuses schemas without a finite value once alternatives that begin alike are cut (RF-4)", () => {
    const self = { $ref: "#" };
    const schema = {
      anyOf: [
        { type: "object", properties: { a: self, b: integer }, required: ["a"] },
        { type: "object", properties: { a: self }, required: [] },
      ],
    };
    expect(refusal(schema, "lenient").message).toContain("no finite value");
  });
});
