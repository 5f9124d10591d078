import { arrayBody } from "./array-grammar.js";
import { gbnfLiteral, jsonText } from "./gbnf.js";
import type { JsonGrammar } from "./json-grammar.js";
import { anyInteger, integerAlternatives, numberAlternatives } from "./number-grammar.js";
import { objectBody } from "./object-grammar.js";
import { oneOfTexts } from "./prefix-tree.js";
import type { Place, Shape, StringShape } from "./shape.js";
import { characterRun } from "./string-grammar.js";

/** Where rules go: a name can be taken before its body is known, so that places can refer to each other. */
export interface RuleSink {
  /** A fresh name that begins with `hint`. */
  readonly reserve: (hint: string) => string;
  readonly define: (name: string, body: string) => void;
}

/** What the grammars of single shapes write with. */
export interface ShapeWriter {
  readonly json: JsonGrammar;
  /** Adds a rule and returns its name. */
  readonly addRule: (hint: string, body: string) => string;
  /** Name of the rule for a place, which may get its body later. */
  readonly ruleOf: (place: Place) => string;
}

/** Writes places as GBNF rules, one rule a place. */
export class SchemaGrammar {
  readonly #sink: RuleSink;
  readonly #writer: ShapeWriter;
  #names = new Map<Place, string>();
  #unwritten: { readonly place: Place; readonly name: string }[] = [];

  constructor(sink: RuleSink, json: JsonGrammar) {
    this.#sink = sink;
    const shared = new Map<string, string>();
    const addRule = (hint: string, body: string) => {
      const known = shared.get(body);
      if (known !== undefined) return known;
      const name = sink.reserve(hint);
      sink.define(name, body);
      shared.set(body, name);
      return name;
    };
    this.#writer = { json, addRule, ruleOf: (place) => this.#ruleOf(place) };
  }

  /** Adds the rules of a place and of all places inside; returns the name of the first. */
  add(root: Place): string {
    const name = this.#ruleOf(root);
    for (let next = this.#unwritten.pop(); next !== undefined; next = this.#unwritten.pop()) {
      this.#sink.define(next.name, next.place.shapes.map((shape) => shapeBody(shape, this.#writer)).join(" | "));
    }
    this.#names = new Map();
    return name;
  }

  #ruleOf(place: Place): string {
    const known = this.#names.get(place);
    if (known !== undefined) return known;
    const [only] = place.shapes;
    if (only?.kind === "any") return this.#writer.json.value();
    const name = this.#sink.reserve(only?.kind ?? "none");
    this.#names.set(place, name);
    this.#unwritten.push({ place, name });
    return name;
  }
}

function shapeBody(shape: Shape, writer: ShapeWriter): string {
  switch (shape.kind) {
    case "any":
      return writer.json.value();
    case "null":
      return '"null"';
    case "boolean":
      return '"true" | "false"';
    case "integer":
      return shape.range === null ? anyInteger : integerAlternatives(shape.range).join(" | ");
    case "number":
      return shape.range === null ? writer.json.number() : numberAlternatives(shape.range).join(" | ");
    case "values":
      return oneOfTexts(shape.values.map(jsonText), "values", writer.addRule);
    case "string":
      return stringBody(shape, writer);
    case "array":
      return arrayBody(shape, writer);
    case "object":
      return objectBody(shape, writer);
  }
}

function stringBody({ minLength, maxLength, format }: StringShape, { json, addRule }: ShapeWriter): string {
  if (format !== null) return `"\\"" ${format.body} "\\""`;
  if (minLength === 0 && maxLength === null) return json.string();
  return `"\\"" ${characterRun(json.character(), minLength, maxLength, addRule)} ${gbnfLiteral('"')}`;
}
