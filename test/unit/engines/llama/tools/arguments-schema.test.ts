import { describe, expect, it } from "vitest";
import { argumentsSchema } from "../../../../../src/engines/llama/chat/tool-calls.js";
import { responseGrammar } from "../../../../../src/engines/llama/structure/response-grammar.js";
import { Matcher } from "../../../../support/gbnf/match.js";
import { parseGbnf } from "../../../../support/gbnf/parse-gbnf.js";

function schemaOf(parameters: object, strict: boolean): object {
  return argumentsSchema({ type: "function", function: { name: "f", parameters, strict } });
}

/** The texts that the schema allows as arguments. */
function accepted(parameters: object, texts: readonly string[]): readonly string[] {
  const { gbnf } = responseGrammar({
    type: "json_schema",
    schemaJson: JSON.stringify(schemaOf(parameters, true)),
    strict: true,
  });
  const matcher = new Matcher(parseGbnf(gbnf));
  return texts.filter((text) => matcher.match(text).matches);
}

const point = { type: "object", properties: { x: { type: "boolean" } }, required: ["x"], additionalProperties: false };

describe("the schema of a tool's arguments", () => {
  it("allows only objects, even if its combined schemas allow other types (TOOL-5)", () => {
    const texts = ['{"x": true}', "5", "[]", "null"];
    expect(accepted({ anyOf: [point, { type: "integer" }, { type: "array" }] }, texts)).toEqual(['{"x": true}']);
    expect(accepted({ $ref: "#/$defs/a", $defs: { a: { anyOf: [{ type: "null" }, point] } } }, texts)).toEqual([
      '{"x": true}',
    ]);
    expect(accepted({ properties: point.properties, additionalProperties: false }, texts)).toEqual(['{"x": true}']);
  });

  it("is refused if it is strict and allows no object (TOOL-14)", () => {
    expect(() => schemaOf({ type: "array" }, true)).toThrow("arguments are an object");
    expect(() => accepted({ anyOf: [{ type: "integer" }, { const: "a" }] }, [])).toThrow("no finite value");
    expect(schemaOf({ type: "array" }, false)).toEqual({ type: "object" });
  });
});
