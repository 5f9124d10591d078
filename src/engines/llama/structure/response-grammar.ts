import { isObject } from "../../../lib/json-string.js";
import { GrammarBuilder } from "./grammar-builder.js";
import { LruCache } from "./lru-cache.js";
import { compileCheck } from "./schema-check.js";
import { SchemaUnsupported } from "./schema-document.js";

type Format =
  | { readonly type: "json_object" }
  | { readonly type: "json_schema"; readonly schemaJson: string; readonly strict: boolean };

/** Form of an answer: the rules for its text, and the check of its finished value. */
export interface ResponseForm {
  /** Adds the rules to a grammar and returns the name of the first. Throws SchemaUnsupported. */
  readonly addTo: (builder: GrammarBuilder) => string;
  /** Null for a valid value, otherwise a description of the fault. */
  readonly check: (value: unknown) => string | null;
}

/** One JSON object of up to 8 levels, or a value of a JSON Schema. Throws SchemaUnsupported. */
export function responseForm(format: Format): ResponseForm {
  if (format.type === "json_object") {
    return {
      addTo: (builder) => builder.anyObject(),
      check: (value) => (isObject(value) ? null : "must be a JSON object"),
    };
  }
  const schema = parsed(format.schemaJson);
  const mode = format.strict ? "strict" : "lenient";
  return { addTo: (builder) => builder.addSchema(schema, mode), check: compileCheck(schema, mode) };
}

const grammars = new LruCache<ResponseForm & { readonly gbnf: string }>();

/** The form and a grammar for an answer that consists of it alone. Throws SchemaUnsupported. */
export function responseGrammar(format: Format): ResponseForm & { readonly gbnf: string } {
  return grammars.get(format.type === "json_object" ? format.type : [format.schemaJson, format.strict], () => {
    const form = responseForm(format);
    const builder = new GrammarBuilder();
    return { ...form, gbnf: builder.build(form.addTo(builder)) };
  });
}

function parsed(schemaJson: string): unknown {
  try {
    return JSON.parse(schemaJson);
  } catch {
    // The parser's own text quotes the input, so it is not passed on.
    throw new SchemaUnsupported("", "it is not JSON.");
  }
}
