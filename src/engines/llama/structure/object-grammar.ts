import { gbnfLiteral, jsonText, memberSeparator, nameSeparator } from "./gbnf.js";
import { noneOfTexts } from "./prefix-tree.js";
import type { ShapeWriter } from "./schema-grammar.js";
import type { ObjectShape } from "./shape.js";
import { isPlain, plainClass } from "./string-grammar.js";

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
