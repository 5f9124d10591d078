import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { responseGrammar } from "../../../../../src/engines/llama/structure/response-grammar.js";
import { useJsonEquality } from "../../../../../src/engines/llama/structure/schema-check.js";
import { jsonText } from "../../../../../src/engines/llama/structure/string-grammar.js";
import { derive } from "../../../../support/gbnf/derive.js";
import { Matcher } from "../../../../support/gbnf/match.js";
import { parseGbnf } from "../../../../support/gbnf/parse-gbnf.js";
import { seededPick } from "../../../../support/random-numbers.js";
import { randomSchema } from "../../../../support/schemas/random-schema.js";
import { rounds } from "../../../../support/tier.js";

const textsPerSchema = 20;
const seeds = { numRuns: rounds(1_000) };

describe("every text that a grammar can produce", () => {
  it.each([true, false])(
    "is JSON that satisfies the schema, with strict %s (RF-3, TOOL-14)",
    { timeout: 120_000 },
    (strict) => {
      fc.assert(
        fc.property(fc.nat(1_000_000), (seed) => {
          const { schema, longestBytes } = randomSchema(seed);
          const ajv = new Ajv2020({ strict: false, validateFormats: false, ownProperties: true });
          const validate = useJsonEquality(ajv).compile(schema);
          const { gbnf, check } = responseGrammar({ type: "json_schema", schemaJson: JSON.stringify(schema), strict });
          const rules = parseGbnf(gbnf);
          const matcher = new Matcher(rules);
          const pick = seededPick(seed);
          for (let index = 0; index < textsPerSchema; index++) {
            const text = derive(rules, pick);
            const value: unknown = JSON.parse(text);
            expect([text, validate(value), check(value)]).toEqual([text, true, null]);
            expect(Buffer.byteLength(text)).toBeLessThanOrEqual(longestBytes);
            const { matches, pathsMax } = matcher.match(text);
            expect([text, matches]).toEqual([text, true]);
            expect(pathsMax).toBeLessThan(200);
          }
        }),
        seeds,
      );
    },
  );

  it("is one JSON object if the format is json_object (RF-1)", () => {
    const { gbnf, check } = responseGrammar({ type: "json_object" });
    const rules = parseGbnf(gbnf);
    const pick = seededPick(1);
    for (let index = 0; index < rounds(2_000); index++) expect(check(JSON.parse(derive(rules, pick)))).toBeNull();
    expect(check([])).toBe("must be a JSON object");
  });
});

describe("every value", () => {
  it("is allowed by a schema without restrictions, up to 8 levels (RF-3)", () => {
    const matcher = new Matcher(
      parseGbnf(responseGrammar({ type: "json_schema", schemaJson: "{}", strict: true }).gbnf),
    );
    const value = fc.jsonValue({ maxDepth: 7, depthSize: "small" }).filter((each) => isShort(each));
    fc.assert(fc.property(value, (each) => matcher.match(jsonText(each)).matches));
  });

  it("that satisfies a schema is allowed by its grammar (RF-3)", () => {
    const schema = {
      type: "object",
      properties: {
        name: { type: "string", minLength: 1, maxLength: 20 },
        count: { type: "integer", minimum: -50, maximum: 5_000 },
        tags: { type: "array", items: { type: ["string", "null"], maxLength: 5 }, maxItems: 4 },
        color: { enum: ["red", "green", null] },
      },
      required: ["name", "tags"],
      additionalProperties: false,
    };
    const matcher = new Matcher(
      parseGbnf(responseGrammar({ type: "json_schema", schemaJson: JSON.stringify(schema), strict: true }).gbnf),
    );
    const text = (minLength: number, maxLength: number) =>
      fc.string({ unit: fc.constantFrom("a", "é", "🙂", '"', "\n", "\\", " "), minLength, maxLength });
    const value = fc.record(
      {
        name: text(1, 20),
        count: fc.integer({ min: -50, max: 5_000 }),
        tags: fc.array(fc.oneof(text(0, 5), fc.constant(null)), { maxLength: 4 }),
        color: fc.constantFrom("red", "green", null),
      },
      { requiredKeys: ["name", "tags"], noNullPrototype: true },
    );
    fc.assert(
      fc.property(value, ({ name, count, tags, color }) => {
        const ordered = {
          name,
          ...(count === undefined ? {} : { count }),
          tags,
          ...(color === undefined ? {} : { color }),
        };
        expect([ordered, matcher.match(jsonText(ordered)).matches]).toEqual([ordered, true]);
      }),
    );
  });
});

/**
 * False for numbers with 16 or more digits or a three-digit exponent, and for texts with DEL, C1 controls or lone
 * surrogates.
 */
function isShort(value: unknown): boolean {
  const text = JSON.stringify(value);
  return !/\d{16}|e[+-]?\d{3}|[\u007f-\u009f]|\\ud[89a-f]/i.test(text);
}
