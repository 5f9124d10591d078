import { anyInteger, anyNumber, rangeBody } from "./number-grammar.js";
import { type SchemaMode, SchemaUnsupported } from "./schema-document.js";
import { planSchema } from "./schema-plan.js";
import type { ArrayShape, ObjectShape, Place, Shape, StringShape } from "./shapes.js";
import {
  characterBody,
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

/**
 * Maximum length of a whole grammar, in UTF-16 code units. The native parser takes some ten milliseconds for the largest
 * grammars of schemas, and blocks all answers during this time.
 */
export const grammarCharsMax = 512 * 1024;

/** Maximum elements that the bounded repetitions of all schemas add to one grammar. */
const repetitionsMax = 60_000;

/** Maximum nesting of a value without a schema; the limit ends a model's endless run of opening brackets. */
const anyDepth = 8;

/** Approximate length of the name of a property that no schema lists, in characters. */
const nameChars = 64;

/** Collects the rules of one GBNF grammar; several schemas can share one grammar. */
export class GrammarBuilder {
  readonly #rules: string[] = [];
  readonly #nameOfBody = new Map<string, string>();
  readonly #nameOfPlace = new Map<Place, string>();
  readonly #unwritten: { readonly place: Place; readonly name: string }[] = [];
  /** Names of the rules for any value, by the number of levels. */
  readonly #anyValues: string[] = [];
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
        "the bounded lengths of all schemas together give too large a grammar; lower some of them.",
      );
    }
    const name = this.ruleOf(root);
    for (let next = this.#unwritten.pop(); next !== undefined; next = this.#unwritten.pop()) {
      this.#define(next.name, next.place.shapes.map((shape) => shapeBody(shape, this)).join(" | "));
    }
    return name;
  }

  /** Adds the rules for any JSON object of up to 8 levels and returns the rule's name. */
  anyObject(depth = anyDepth): string {
    const member = `${this.anyString()} ${gbnfLiteral(nameSeparator)} ${this.anyValue(depth - 1)}`;
    return this.rule("object", listBody("{", this.rule("member", member), "}"));
  }

  /** Adds the rules for any JSON value of up to 8 levels and returns the rule's name. */
  anyValue(depth = anyDepth): string {
    const known = this.#anyValues[depth];
    if (known !== undefined) return known;
    const scalars = `${this.anyString()} | ${this.rule("number", anyNumber)} | "true" | "false" | "null"`;
    const array = () => this.rule("array", listBody("[", this.anyValue(depth - 1), "]"));
    const name = this.rule("value", depth === 0 ? scalars : `${this.anyObject(depth)} | ${array()} | ${scalars}`);
    this.#anyValues[depth] = name;
    return name;
  }

  anyString(): string {
    return this.rule("string", `"\\"" ${this.rule("character", characterBody)}* "\\""`);
  }

  /** Adds a rule with this GBNF body, or finds the one that has it, and returns its name, which begins with `hint`. */
  rule(hint: string, body: string): string {
    const known = this.#nameOfBody.get(body);
    if (known !== undefined) return known;
    const name = this.#freshName(hint);
    this.#define(name, body);
    this.#nameOfBody.set(body, name);
    return name;
  }

  /** Name of the rule for a place. Its body follows later, so that places can refer to each other. */
  ruleOf(place: Place): string {
    const [only] = place.shapes;
    if (only?.kind === "any") return this.anyValue();
    const known = this.#nameOfPlace.get(place);
    if (known !== undefined) return known;
    const name = this.#freshName(only?.kind ?? "none");
    this.#nameOfPlace.set(place, name);
    this.#unwritten.push({ place, name });
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
      const why = `its grammar is longer than ${grammarCharsMax} characters; use a smaller schema.`;
      throw new SchemaUnsupported("", why);
    }
    this.#rules.push(rule);
  }
}

function listBody(open: string, member: string, close: string): string {
  const more = `(${gbnfLiteral(memberSeparator)} ${member})*`;
  return `${gbnfLiteral(open)} (${member} ${more})? ${gbnfLiteral(close)}`;
}

function shapeBody(shape: Shape, builder: GrammarBuilder): string {
  switch (shape.kind) {
    case "any":
      return builder.anyValue();
    case "null":
      return '"null"';
    case "boolean":
      return '"true" | "false"';
    case "integer":
      return shape.range === null ? anyInteger : rangeBody(shape.range, true);
    case "number":
      return shape.range === null ? anyNumber : rangeBody(shape.range, false);
    case "values":
      return oneOfTexts(shape.values.map(jsonText), "values", (hint, body) => builder.rule(hint, body));
    case "string":
      return stringBody(shape, builder);
    case "array":
      return arrayBody(shape, builder);
    case "object":
      return objectBody(shape, builder);
  }
}

function stringBody({ minLength, maxLength, format }: StringShape, builder: GrammarBuilder): string {
  if (format !== null) return `"\\"" ${format.body} "\\""`;
  if (minLength === 0 && maxLength === null) return builder.anyString();
  const character = builder.rule("character", characterBody);
  return `"\\"" ${characterRun(character, minLength, maxLength, (hint, body) => builder.rule(hint, body))} "\\""`;
}

/** GBNF for an array. After each item the grammar has at most two paths: the end or one more item. */
function arrayBody(shape: ArrayShape, builder: GrammarBuilder): string {
  const { minItems, maxItems } = shape;
  if (maxItems === 0) return '"[]"';
  const listed = shape.prefix.slice(0, maxItems ?? shape.prefix.length);
  const tail = listed.length === maxItems ? '"]"' : openTail(shape, listed.length, builder);
  const items = listed.reduceRight((rest, place, position) => {
    const separator = position === 0 ? "" : `${gbnfLiteral(memberSeparator)} `;
    const item = `${separator}${builder.ruleOf(place)} ${rest}`;
    return builder.rule("items", position >= minItems ? `"]" | ${item}` : item);
  }, tail);
  return `"[" ${items}`;
}

/** GBNF for the items after the listed ones, and the closing bracket. */
function openTail({ items, minItems, maxItems }: ArrayShape, listed: number, builder: GrammarBuilder): string {
  const item = builder.ruleOf(items);
  const more = builder.rule("item", `${gbnfLiteral(memberSeparator)} ${item}`);
  // The first item has no separator before it.
  const counted = listed > 0 ? listed : 1;
  const bounds = `{${Math.max(0, minItems - counted)},${maxItems === null ? "" : maxItems - counted}}`;
  const rest = maxItems === counted ? '"]"' : `${more}${bounds === "{0,}" ? "*" : bounds} "]"`;
  if (listed > 0) return rest;
  return minItems > 0 ? `${item} ${rest}` : `("]" | ${item} ${rest})`;
}

/**
 * GBNF for an object whose properties come in the listed order, unlisted ones last. It has one rule per optional
 * property: "the next one that is written", which is this property or a later one.
 */
function objectBody(shape: ObjectShape, builder: GrammarBuilder): string {
  const { properties } = shape;
  if (shape.maxProperties !== null) return `"{" ${boundedMap(shape, shape.maxProperties, builder)}`;
  const lastRequired = properties.findLastIndex(({ required }) => required);
  const extra = extraProperty(shape, builder);
  /** GBNF for one or more further properties and the closing brace; null: no further property is allowed. */
  let next = extra && builder.rule("extra", `${extra} (${gbnfLiteral(memberSeparator)} ${extra})* "}"`);
  for (const [index, { name, place, required }] of [...properties.entries()].reverse()) {
    const more = next && `${gbnfLiteral(memberSeparator)} ${next}`;
    const after = more === null ? '"}"' : index < lastRequired ? more : `("}" | ${more})`;
    const written = `${gbnfLiteral(jsonText(name) + nameSeparator)} ${builder.ruleOf(place)} ${after}`;
    const isReferredToTwice = !required || properties[index - 1]?.required === false;
    const body = required || next === null ? written : `${written} | ${next}`;
    next = isReferredToTwice ? builder.rule("property", body) : body;
  }
  if (next === null) return '"{}"';
  return lastRequired >= 0 || shape.notEmpty ? `"{" ${next}` : `"{" ("}" | ${next})`;
}

/** GBNF for up to the maximum number of unlisted properties, with the closing brace. */
function boundedMap(shape: ObjectShape, most: number, builder: GrammarBuilder): string {
  const property = extraProperty(shape, builder);
  if (property === null || most === 0) return '"}"';
  const more = builder.rule("more", `${gbnfLiteral(memberSeparator)} ${property}`);
  const some = most === 1 ? `${property} "}"` : `${property} ${more}{0,${most - 1}} "}"`;
  return shape.notEmpty ? some : `("}" | ${some})`;
}

/** GBNF for an unlisted property: its name has no escapes, so that it cannot be a listed one in another spelling. */
function extraProperty({ properties, extra }: ObjectShape, builder: GrammarBuilder): string | null {
  if (extra === null) return null;
  const taken = [...properties.map(({ name }) => name), "__proto__"].filter(isPlain);
  const rest = builder.rule("name-rest", `${builder.rule("plain", plainClass(""))}{0,${nameChars}}`);
  const name = noneOfTexts(taken, rest, (hint, body) => builder.rule(hint, body));
  return builder.rule("pair", `"\\"" ${name} "\\"${nameSeparator}" ${builder.ruleOf(extra)}`);
}
