import { GrammarBuilder } from "./grammar-builder.js";
import { RecentlyMade } from "./recently-made.js";
import { compileCheck } from "./schema-check.js";
import { SchemaUnsupported } from "./schema-unsupported.js";

/** What an answer must be: the rules for its text, and the check of the value that the finished text holds. */
export interface ResponseForm {
  /** Adds the rules to a grammar and returns the name of the first. Throws SchemaUnsupported. */
  readonly addTo: (builder: GrammarBuilder) => string;
  /** Null for a valid value, otherwise what is wrong with it. */
  readonly check: (value: unknown) => string | null;
}

/** A form with the grammar for an answer that is nothing else. */
export interface ResponseGrammar extends ResponseForm {
  readonly gbnf: string;
}

/** One JSON object of up to 8 levels. */
export const jsonObjectForm: ResponseForm = {
  addTo: (builder) => builder.anyObject(),
  check: (value) =>
    typeof value === "object" && value !== null && !Array.isArray(value) ? null : "must be a JSON object",
};

/** A value of a JSON Schema. Throws SchemaUnsupported. */
export function jsonSchemaForm(schemaJson: string, strict: boolean): ResponseForm {
  const schema = parsed(schemaJson);
  const mode = strict ? "strict" : "lenient";
  return { addTo: (builder) => builder.addSchema(schema, mode), check: compileCheck(schema, mode) };
}

export function jsonObjectGrammar(): ResponseGrammar {
  return grammars.get("json_object", () => withGrammar(jsonObjectForm));
}

/** Throws SchemaUnsupported. */
export function jsonSchemaGrammar(schemaJson: string, strict: boolean): ResponseGrammar {
  return grammars.get([schemaJson, strict], () => withGrammar(jsonSchemaForm(schemaJson, strict)));
}

const grammars = new RecentlyMade<ResponseGrammar>();

function withGrammar(form: ResponseForm): ResponseGrammar {
  const builder = new GrammarBuilder();
  return { ...form, gbnf: builder.build(form.addTo(builder)) };
}

function parsed(schemaJson: string): unknown {
  try {
    return JSON.parse(schemaJson);
  } catch {
    // The parser's own text quotes the input, so it is not passed on.
    throw new SchemaUnsupported("", "it is not JSON.");
  }
}
