import type { AddRule } from "./prefix-tree.js";

/** The characters that a JSON string holds as they are; `without` these, none of which may be special in GBNF's sets. */
export function plainClass(without: string): string {
  const cuts = [...without, '"', "\\"].map((character) => character.codePointAt(0) ?? 0);
  const ranges: string[] = [];
  for (const [first, last] of plainRanges) {
    let from = first;
    for (const cut of [...new Set(cuts)].sort((a, b) => a - b)) {
      if (cut < from || cut > last) continue;
      if (cut > from) ranges.push(rangeText(from, cut - 1));
      from = cut + 1;
    }
    if (from <= last) ranges.push(rangeText(from, last));
  }
  return `[${ranges.join("")}]`;
}

/** Whether a text can stand in a JSON string as it is. */
export function isPlain(text: string): boolean {
  return [...text].every((character) => {
    const codePoint = character.codePointAt(0) ?? 0;
    const inRange = plainRanges.some(([first, last]) => first <= codePoint && codePoint <= last);
    return inRange && character !== '"' && character !== "\\";
  });
}

/** Control characters stay out, and so do the code points that UTF-8 cannot carry. */
const plainRanges: readonly (readonly [number, number])[] = [
  [0x20, 0x7e],
  [0xa0, 0xd7ff],
  [0xe000, 0xffff],
  [0x10000, 0x10ffff],
];

function rangeText(first: number, last: number): string {
  return first === last ? codePointText(first) : `${codePointText(first)}-${codePointText(last)}`;
}

function codePointText(codePoint: number): string {
  const hex = codePoint.toString(16);
  if (codePoint <= 0xff) return `\\x${hex.padStart(2, "0")}`;
  return codePoint <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}

/**
 * One character of a JSON string as validators count it: a code point, written as it is or escaped. Escaped halves of
 * a pair only come together, so that no text ends in half a character.
 */
export const characterBody = [
  plainClass(""),
  '"\\\\" (["\\\\/bfnrt] | "u" ([0-9abcefABCEF] [0-9a-fA-F]{3} | [dD] ([0-7] [0-9a-fA-F]{2} | [89abAB] [0-9a-fA-F]{2} "\\\\u" [dD] [c-fC-F] [0-9a-fA-F]{2})))',
].join(" | ");

/** Bounded runs of up to this many characters are counted one by one, longer ones in blocks of this size. */
const block = 64;

/** What a bounded string adds to a grammar, in elements of the engine's own form. */
export function stringCost(minLength: number, maxLength: number | null): number {
  const most = maxLength ?? minLength;
  return most <= block ? most * 4 : Math.ceil(most / block) * 5 + block * 8;
}

/** Longest bounded string of a grammar, in characters. */
export const stringLengthMax = 64_000;

/**
 * GBNF for `min` to `max` times `character`, the name of a rule; `max` null: without an end. Long runs are made of
 * blocks, so that the grammar grows with their square root and the engine follows two paths at most.
 */
export function characterRun(character: string, min: number, max: number | null, addRule: AddRule): string {
  const least = exactly(character, min, addRule);
  if (max === null) return joinSequence(least, `${character}*`);
  return joinSequence(least, atMost(character, max - min, addRule));
}

function exactly(character: string, count: number, addRule: AddRule): string {
  const blocks = Math.floor(count / block);
  if (blocks === 0) return times(character, count);
  return joinSequence(times(addRule("block", times(character, block)), blocks), times(character, count % block));
}

function atMost(character: string, count: number, addRule: AddRule): string {
  if (count <= block) return count === 0 ? "" : `${character}{0,${count}}`;
  const fullBlock = addRule("block", times(character, block));
  const partBlock = addRule("part", `${character}{0,${block - 1}}`);
  const blocks = Math.floor(count / block);
  let rest = addRule("run", `${character}{0,${count % block}}`);
  for (let left = 0; left < blocks; left++) rest = addRule("run", `${fullBlock} ${rest} | ${partBlock}`);
  return rest;
}

function times(name: string, count: number): string {
  if (count === 0) return "";
  return count === 1 ? name : `${name}{${count}}`;
}

function joinSequence(...parts: readonly string[]): string {
  return parts.filter((part) => part !== "").join(" ");
}
