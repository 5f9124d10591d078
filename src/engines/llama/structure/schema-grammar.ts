import type { JsonGrammar } from "./json-grammar.js";
import { anyInteger, integerAlternatives, numberAlternatives } from "./number-grammar.js";
import type { ArrayShape, ObjectShape, Place, Shape, StringShape } from "./shape.js";
import {
  characterRun,
  gbnfLiteral,
  isPlain,
  jsonText,
  memberSeparator,
  nameSeparator,
  noneOfTexts,
  oneOfTexts,
  plainClass,
} from "./string-grammar.js";

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

/** GBNF for an array. After each item the engine has two ways at most: the end or one more item. */
export function arrayBody(shape: ArrayShape, writer: ShapeWriter): string {
  const { minItems, maxItems } = shape;
  if (maxItems === 0) return gbnfLiteral("[]");
  const listed = Math.min(shape.prefix.length, maxItems ?? shape.prefix.length);
  let tail = listed === maxItems ? gbnfLiteral("]") : openTail(shape, listed, writer);
  for (let position = listed - 1; position >= 0; position--) {
    const place = shape.prefix[position];
    if (place === undefined) continue;
    const separator = position === 0 ? "" : `${gbnfLiteral(memberSeparator)} `;
    const item = `${separator}${writer.ruleOf(place)} ${tail}`;
    tail = writer.addRule("items", position >= minItems ? `"]" | ${item}` : item);
  }
  return `"[" ${tail}`;
}

/** Items after the listed ones, with the closing bracket. */
function openTail({ items, minItems, maxItems }: ArrayShape, listed: number, writer: ShapeWriter): string {
  const item = writer.ruleOf(items);
  const more = writer.addRule("item", `${gbnfLiteral(memberSeparator)} ${item}`);
  const least = Math.max(0, minItems - listed);
  const most = maxItems === null ? null : maxItems - listed;
  if (listed > 0) return `${repeated(more, least, most)} "]"`;
  const some = `${item} ${repeated(more, Math.max(0, least - 1), most === null ? null : most - 1)} "]"`;
  return least > 0 ? some : `("]" | ${some})`;
}

function repeated(rule: string, least: number, most: number | null): string {
  if (most === null) return least === 0 ? `${rule}*` : `${rule}{${least},}`;
  if (most === 0) return "";
  return least === most ? `${rule}{${least}}` : `${rule}{${least},${most}}`;
}

/**
 * GBNF for an object whose properties come in the listed order, unlisted ones last. It has one rule per optional
 * property: "the next one that is written", which is this property or a later one.
 */
export function objectBody(shape: ObjectShape, writer: ShapeWriter): string {
  const { properties } = shape;
  if (shape.maxProperties !== null) return `"{" ${boundedMap(shape, shape.maxProperties, writer)}`;
  const needsMore = mustContinue(shape);
  let next = extraProperties(shape, writer);
  for (let index = properties.length - 1; index >= 0; index--) {
    const property = properties[index];
    if (property === undefined) continue;
    const name = gbnfLiteral(jsonText(property.name) + nameSeparator);
    const written = `${name} ${writer.ruleOf(property.place)} ${afterProperty(next, needsMore(index + 1))}`;
    const isReferredToTwice = !property.required || properties[index - 1]?.required === false;
    const body = property.required || next === null ? written : `${written} | ${next}`;
    next = isReferredToTwice ? writer.addRule("property", body) : body;
  }
  if (next === null) return gbnfLiteral("{}");
  return needsMore(0) || shape.notEmpty ? `"{" ${next}` : `"{" (${gbnfLiteral("}")} | ${next})`;
}

/** Whether a required property stands at an index or after it. */
function mustContinue({ properties }: ObjectShape): (index: number) => boolean {
  const lastRequired = properties.findLastIndex((property) => property.required);
  return (index) => index <= lastRequired;
}

function afterProperty(next: string | null, needsMore: boolean): string {
  if (next === null) return gbnfLiteral("}");
  const more = `${gbnfLiteral(memberSeparator)} ${next}`;
  return needsMore ? more : `(${gbnfLiteral("}")} | ${more})`;
}

/** One or more unlisted properties and the closing brace; null: there are none. */
function extraProperties(shape: ObjectShape, writer: ShapeWriter): string | null {
  const property = extraProperty(shape, writer);
  if (property === null) return null;
  return writer.addRule("extra", `${property} (${gbnfLiteral(memberSeparator)} ${property})* ${gbnfLiteral("}")}`);
}

/** As many unlisted properties as the bounds allow, with the closing brace. */
function boundedMap(shape: ObjectShape, most: number, writer: ShapeWriter): string {
  const property = extraProperty(shape, writer);
  if (property === null || most === 0) return gbnfLiteral("}");
  const more = writer.addRule("more", `${gbnfLiteral(memberSeparator)} ${property}`);
  const some = most === 1 ? `${property} "}"` : `${property} ${more}{0,${most - 1}} "}"`;
  return shape.notEmpty ? some : `("}" | ${some})`;
}

/** An unlisted property: its name has no escapes, so that it cannot be a listed one in another spelling. */
function extraProperty({ properties, extra }: ObjectShape, writer: ShapeWriter): string | null {
  if (extra === null) return null;
  const taken = [...properties.map(({ name }) => name), "__proto__"].filter(isPlain);
  const plain = { without: plainClass, rest: writer.json.nameRest() };
  const name = noneOfTexts(taken, plain, writer.addRule);
  return writer.addRule("pair", `"\\"" ${name} "\\"${nameSeparator}" ${writer.ruleOf(extra)}`);
}
