import { describe, expect, it } from "vitest";
import { GrammarBuilder } from "../../../../../src/engines/llama/structure/grammar-builder.js";
import { gbnfLiteral } from "../../../../../src/engines/llama/structure/string-grammar.js";
import { Matcher } from "../../../../support/gbnf/match.js";
import { parseGbnf } from "../../../../support/gbnf/parse-gbnf.js";
import { hostileSchemas } from "../../../../support/schemas/hostile-schemas.js";

describe("GrammarBuilder", () => {
  it("combines several schemas and rules of its caller in one grammar", () => {
    const builder = new GrammarBuilder();
    const weather = builder.addSchema({ type: "object", properties: { city: { enum: ["Paris"] } } }, "strict");
    const time = builder.addSchema({ type: "object", properties: { zone: { const: "UTC" } } }, "lenient");
    const calls = [`"w" ${weather}`, `"t" ${time}`, `"o" ${builder.anyObject()}`, `"v" ${builder.anyValue()}`];
    const root = builder.rule("call of_a tool!", calls.join(" | "));
    expect(root).toMatch(/^call-of-a-tool--\d+$/);
    const matcher = new Matcher(parseGbnf(builder.build(root)));
    for (const text of ['w{"city": "Paris"}', 't{"zone": "UTC"}', 'o{"a": [1]}', "v[null]", "w{}"]) {
      expect([text, matcher.match(text).matches]).toEqual([text, true]);
    }
    for (const text of ['w{"zone": "UTC"}', "o[]", "{}"]) {
      expect([text, matcher.match(text).matches]).toEqual([text, false]);
    }
  });

  it("bounds the depth of values without a schema to 8 levels", () => {
    const builder = new GrammarBuilder();
    const matcher = new Matcher(parseGbnf(builder.build(builder.anyValue())));
    const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
    expect([8, 9].map((levels) => matcher.match(nested(levels)).matches)).toEqual([true, false]);
  });

  it("bounds the repetitions of all schemas of a grammar (SEC-10)", () => {
    const builder = new GrammarBuilder();
    const schema = { type: "array", items: { type: "array", items: {}, maxItems: 1_900 }, maxItems: 1_900 };
    const addAll = () => {
      for (let index = 0; index < 128; index++) builder.addSchema(schema, "strict");
    };
    expect(addAll).toThrow("too large a grammar");
  });

  it("refuses every schema whose grammar would exceed 512 KiB (SEC-10)", () => {
    for (const schema of hostileSchemas()) {
      const builder = new GrammarBuilder();
      try {
        expect(builder.build(builder.addSchema(schema, "lenient")).length).toBeLessThanOrEqual(512 * 1024 + 100);
      } catch (error) {
        expect(error).toHaveProperty("name", "SchemaUnsupported");
      }
    }
  });
});

describe("gbnfLiteral", () => {
  it("matches exactly its text", () => {
    for (const text of ['say "hi"\\', "line\r\n\ttab", "日本 🙂", "\u0001\u007f", "]-^{}|()"]) {
      const matcher = new Matcher(parseGbnf(`root ::= ${gbnfLiteral(text)}`));
      expect([text, matcher.match(text).matches, matcher.match(`${text}x`).matches]).toEqual([text, true, false]);
    }
  });
});
