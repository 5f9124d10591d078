import { JsonGrammar } from "./json-grammar.js";
import { LruCache } from "./lru-cache.js";
import { compileCheck } from "./schema-check.js";
import { type SchemaMode, SchemaUnsupported } from "./schema-document.js";
import { SchemaGrammar } from "./schema-grammar.js";
import { planSchema } from "./schema-plan.js";
import { gbnfLiteral } from "./string-grammar.js";

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

const grammars = new LruCache<ResponseGrammar>();

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

export { gbnfLiteral };

/**
 * Text of a whole grammar, in UTF-16 code units. The native parser, which holds up all answers, reads the largest ones
 * that schemas make in some ten milliseconds.
 */
const grammarCharsMax = 512 * 1024;

/** Elements that the bounded repetitions of all schemas add to one grammar. */
const repetitionsMax = 60_000;

/** Collects the rules of one GBNF grammar; several schemas can stand in one grammar. */
export class GrammarBuilder {
  readonly #rules: string[] = [];
  readonly #json = new JsonGrammar((hint, body) => this.rule(hint, body));
  readonly #schemas = new SchemaGrammar(
    { reserve: (hint) => this.#freshName(hint), define: (name, body) => this.#define(name, body) },
    this.#json,
  );
  #repetitions = 0;
  #names = 0;
  #chars = 0;

  /**
   * Adds the rules for a schema and returns the name of its start rule. Texts of the rule are JSON on one line with a
   * space after colons and commas, and with the properties in the schema's order. Throws SchemaUnsupported.
   */
  addSchema(schema: unknown, mode: SchemaMode): string {
    const { root, repetitions } = planSchema(schema, mode);
    this.#repetitions += repetitions;
    if (this.#repetitions > repetitionsMax) {
      throw new SchemaUnsupported(
        "",
        "the lengths that all schemas bound make too large a grammar; lower some of them.",
      );
    }
    return this.#schemas.add(root);
  }

  /** Adds the rules for any JSON object of up to 8 levels and returns the rule's name. */
  anyObject(): string {
    return this.#json.object();
  }

  /** Adds the rules for any JSON value of up to 8 levels and returns the rule's name. */
  anyValue(): string {
    return this.#json.value();
  }

  /** Adds a rule with this GBNF body under a fresh name that begins with `hint`, and returns the name. */
  rule(hint: string, body: string): string {
    const name = this.#freshName(hint);
    this.#define(name, body);
    return name;
  }

  /** The finished grammar, which begins with `root`, the name of one of its rules. */
  build(root: string): string {
    return [`root ::= ${root}`, ...this.#rules, ""].join("\n");
  }

  #freshName(hint: string): string {
    return `${hint.replaceAll(/[^A-Za-z0-9-]/g, "-").slice(0, 40)}-${++this.#names}`;
  }

  #define(name: string, body: string): void {
    const rule = `${name} ::= ${body}`;
    this.#chars += rule.length + 1;
    if (this.#chars > grammarCharsMax) {
      throw new SchemaUnsupported(
        "",
        `its grammar is longer than ${grammarCharsMax} characters; use a smaller schema.`,
      );
    }
    this.#rules.push(rule);
  }
}
