import type { TextFormat } from "../../../domain/engine/text-format.js";
import { isObject } from "../../../lib/json-string.js";
import { rulesOfGbnf } from "./gbnf-syntax.js";
import { GrammarBuilder } from "./grammar-builder.js";
import { LruCache } from "./lru-cache.js";
import { grammarOfRules } from "./pattern-grammar.js";
import { patternOfRegex } from "./regex-syntax.js";
import { compileCheck } from "./schema-check.js";
import { SchemaUnsupported } from "./schema-document.js";
import { oneOfTexts } from "./string-grammar.js";

/** Formats whose texts are JSON. */
type JsonFormat =
  | { readonly type: "json_object" }
  | { readonly type: "json_schema"; readonly schemaJson: string; readonly strict: boolean };

/** Formats whose texts are not JSON. */
type PlainFormat = Exclude<TextFormat, JsonFormat>;

export function isJsonFormat(format: TextFormat): format is Extract<TextFormat, JsonFormat> {
  return format.type === "json_object" || format.type === "json_schema";
}

/** Form of an answer: the rules for its text, and the check of its finished value. */
export interface ResponseForm {
  /** Adds the rules to a grammar and returns the name of the first. Throws SchemaUnsupported. */
  readonly addTo: (builder: GrammarBuilder) => string;
  /** Null for a valid value, otherwise a description of the fault. */
  readonly check: (value: unknown) => string | null;
}

/** One JSON object of up to 8 levels, or a value of a JSON Schema. Throws SchemaUnsupported. */
export function responseForm(format: JsonFormat): ResponseForm {
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

/** The form of a JSON answer, and the grammar of an answer that has only this form. Throws SchemaUnsupported. */
export function responseGrammar(format: JsonFormat): ResponseForm & { readonly gbnf: string } {
  return grammars.get(format.type === "json_object" ? format.type : [format.schemaJson, format.strict], () => {
    const form = responseForm(format);
    const builder = new GrammarBuilder();
    return { ...form, gbnf: builder.build(form.addTo(builder)) };
  });
}

const plainGrammars = new LruCache<string>();

/** A grammar for an answer of this format. Throws PatternUnsupported. */
export function plainGrammar(format: PlainFormat): string {
  switch (format.type) {
    case "choice":
      return plainGrammars.get(["choice", format.choices], () => {
        const builder = new GrammarBuilder();
        const body = oneOfTexts(format.choices, "choice", (hint, rule) => builder.rule(hint, rule));
        return builder.build(body);
      });
    case "regex":
      return plainGrammars.get(["regex", format.regex], () =>
        grammarOfRules(new Map([["root", patternOfRegex(format.regex)]]), "root"),
      );
    case "grammar":
      return plainGrammars.get(["grammar", format.grammar], () => grammarOfRules(rulesOfGbnf(format.grammar), "root"));
  }
}

function parsed(schemaJson: string): unknown {
  try {
    return JSON.parse(schemaJson);
  } catch {
    // The parser's own text quotes the input, so it is not passed on.
    throw new SchemaUnsupported("", "it is not JSON.");
  }
}
