import { GrammarBuilder } from "../../../../../src/engines/llama/structure/grammar-builder.js";
import { type SchemaMode, SchemaUnsupported } from "../../../../../src/engines/llama/structure/schema-document.js";
import { Matcher } from "../../../../support/gbnf/match.js";
import { type Gbnf, parseGbnf } from "../../../../support/gbnf/parse-gbnf.js";

/** The parsed grammar of a schema. */
export function grammarOf(schema: unknown, mode: SchemaMode = "strict"): Gbnf {
  const builder = new GrammarBuilder();
  return parseGbnf(builder.build(builder.addSchema(schema, mode)));
}

/** The texts that the grammar of a schema allows. */
export function accepted(schema: unknown, texts: readonly string[], mode: SchemaMode = "strict"): readonly string[] {
  const matcher = new Matcher(grammarOf(schema, mode));
  return texts.filter((text) => matcher.match(text).matches);
}

/** The error for a rejected schema; throws if the schema is accepted. */
export function refusal(schema: unknown, mode: SchemaMode = "strict"): SchemaUnsupported {
  try {
    grammarOf(schema, mode);
  } catch (error) {
    if (error instanceof SchemaUnsupported) return error;
    throw error;
  }
  throw new Error("the schema was not refused");
}
