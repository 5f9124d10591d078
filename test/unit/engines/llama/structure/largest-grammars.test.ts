import { getLlama, LlamaGrammar, LlamaLogLevel } from "node-llama-cpp";
import { expect, it } from "vitest";
import { GrammarBuilder } from "../../../../../src/engines/llama/structure/grammar-builder.js";

/** Maximum tools of a request. */
const schemasMax = 128;

const word = (i: number) => ((i * 2_654_435_761) % 2 ** 32).toString(36);
const listed = (count: number, item: (i: number) => unknown) => Array.from({ length: count }, (_, i) => item(i));
const properties = (count: number, schema: (i: number) => unknown) =>
  Object.fromEntries(listed(count, (i) => [`${word(i)} ${i}`, schema(i)]) as [string, unknown][]);

const kinds: Readonly<Record<string, (i: number) => object>> = {
  "listed values": (i) => ({ enum: listed(1_500, (j) => `${word(i * 2_000 + j)} and some more text`) }),
  "optional properties": (i) => ({
    type: "object",
    properties: properties(200, () => ({ type: "integer" })),
    additionalProperties: i % 2 === 0,
  }),
  "long texts": (i) => ({ type: "object", properties: properties(20, (j) => ({ maxLength: 2_000 + i + j })) }),
  alternatives: (i) => ({
    anyOf: listed(60, (j) => ({ type: "object", properties: { [word(i + j)]: { const: j } } })),
  }),
  ranges: (i) => ({
    anyOf: listed(300, (j) => ({ type: "integer", minimum: j * 7_919, maximum: j * 7_919 + i + 137 })),
  }),
};

/** A grammar of as many schemas as the builder accepts; an answer may follow any of them. */
function largest(schema: (i: number) => object): string {
  let builder = new GrammarBuilder();
  let gbnf = "";
  for (let count = 1; count <= schemasMax; count *= 2) {
    builder = new GrammarBuilder();
    try {
      const roots = listed(count, (i) => `"${i}" ${builder.addSchema(schema(i), "lenient")}`);
      gbnf = builder.build(builder.rule("answer", roots.join(" | ")));
    } catch {
      break;
    }
  }
  return gbnf;
}

it("the engine's parser reads the largest grammars of schemas within two seconds (SEC-10)", {
  timeout: 60_000,
}, async () => {
  const llama = await getLlama({ build: "never", gpu: false, skipDownload: true, logLevel: LlamaLogLevel.disabled });
  const lengths: number[] = [];
  for (const [kind, schema] of Object.entries(kinds)) {
    const gbnf = largest(schema);
    const startedAt = performance.now();
    expect(new LlamaGrammar(llama, { grammar: gbnf })).toBeDefined();
    expect([kind, performance.now() - startedAt < 2_000]).toEqual([kind, true]);
    lengths.push(gbnf.length);
  }
  expect(Math.max(...lengths)).toBeGreaterThan(250_000);
});
