import { gbnfLiteral, memberSeparator } from "./gbnf.js";
import type { ShapeWriter } from "./schema-grammar.js";
import type { ArrayShape } from "./shape.js";

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
