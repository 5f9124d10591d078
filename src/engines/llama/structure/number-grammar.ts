import type { SchemaDocument, SchemaObject } from "./schema-document.js";

/** Maximum digits before the decimal point, and after it, in a number of a grammar. Doubles hold 10^15 - 1 exactly. */
const digitsMax = 15;

/**
 * Bounds in units of `10^-decimals`, both inclusive; empty when `low` is above `high`. Numbers between two units are
 * allowed as well, except for integers, whose `decimals` are 0.
 */
export interface NumberRange {
  readonly low: bigint;
  readonly high: bigint;
  readonly decimals: number;
}

/** A range with an exclusive bound has this many more decimals than the bound, so that few numbers next to it are lost. */
const finerDecimals = 2;

/** Maximum decimals of a range. Bounds with more are rounded inwards. */
const decimalsMax = 13;

const limit = 10n ** BigInt(digitsMax) - 1n;

interface Bound {
  readonly isLower: boolean;
  readonly isExclusive: boolean;
  readonly value: number;
}

/** The range within the bounds of all schemas, rounded inwards to the range's decimals; null: no bound is given. */
export function readRange(
  document: SchemaDocument,
  schemas: readonly SchemaObject[],
  isInteger: boolean,
): NumberRange | null {
  const bounds = schemas.flatMap((schema) => boundsOf(document, schema));
  if (bounds.length === 0) return null;
  const decimals = isInteger ? 0 : decimalsFor(bounds);
  let high = limit * 10n ** BigInt(decimals);
  let low = -high;
  for (const { isLower, isExclusive, value } of bounds) {
    const { units, isExact } = unitsBelow(value, decimals);
    if (isLower) {
      const least = isExact && !isExclusive ? units : units + 1n;
      if (least > low) low = least;
    } else {
      const most = isExact && isExclusive ? units - 1n : units;
      if (most < high) high = most;
    }
  }
  return { low, high, decimals };
}

/** Bounds of more than 15 digits are left out. They are given up if no number of 15 digits satisfies them. */
function boundsOf(document: SchemaDocument, schema: SchemaObject): readonly Bound[] {
  return ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"].flatMap((keyword) => {
    const value = document.readNumber(schema, keyword);
    if (value === null) return [];
    const isLower = keyword.endsWith("inimum");
    if (Math.abs(value) <= Number(limit)) return [{ isLower, isExclusive: keyword.startsWith("exclusive"), value }];
    if (isLower ? value > 0 : value < 0) {
      document.giveUp(schema, keyword, `requires a number of more than ${digitsMax} digits`);
    }
    return [];
  });
}

/**
 * Decimals of a range: those of its bounds, more for exclusive bounds, and few enough that doubles can distinguish two
 * units.
 */
function decimalsFor(bounds: readonly Bound[]): number {
  const finest = Math.max(0, ...bounds.map(({ value }) => exactDecimal(value).decimals));
  const wanted = bounds.some(({ isExclusive }) => isExclusive) ? finest + finerDecimals : finest;
  const wholeDigits = Math.max(...bounds.map(({ value }) => Math.trunc(Math.abs(value)).toString().length));
  return Math.min(wanted, decimalsMax, digitsMax - wholeDigits);
}

/** The value as `digits / 10^decimals`; `decimals` may be negative. */
function exactDecimal(value: number): { readonly digits: bigint; readonly decimals: number } {
  const [mantissa = "", exponent = "0"] = value.toString().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  return { digits: BigInt(whole + fraction), decimals: fraction.length - Number(exponent) };
}

/** The greatest number of units that is not above a value, and whether it is the value. */
function unitsBelow(value: number, decimals: number): { readonly units: bigint; readonly isExact: boolean } {
  const { digits, decimals: ownDecimals } = exactDecimal(value);
  if (decimals >= ownDecimals) return { units: digits * 10n ** BigInt(decimals - ownDecimals), isExact: true };
  const divisor = 10n ** BigInt(ownDecimals - decimals);
  const isExact = digits % divisor === 0n;
  return { units: digits / divisor - (digits < 0n && !isExact ? 1n : 0n), isExact };
}

/** GBNF for any whole number of at most 15 digits. */
export const anyInteger = `"-"? ("0" | [1-9] [0-9]{0,${digitsMax - 1}})`;

/** GBNF for any number of at most 15 digits, 15 decimals and an exponent of two digits. */
export const anyNumber = `${anyInteger} ("." [0-9]{1,${digitsMax}})? ([eE] [-+]? [0-9]{1,2})?`;

/** GBNF for exactly the numbers of a range that is not empty. */
export function rangeBody({ low, high, decimals }: NumberRange, isInteger: boolean): string {
  const finer = digitsMax - decimals;
  const tail = decimals === 0 ? `("." [0-9]{1,${finer}})?` : `[0-9]{0,${finer}}`;
  const magnitudes = (from: bigint, to: bigint): string => {
    if (isInteger || from === to) return unitsBody(from, to, decimals);
    return `(${unitsBody(from, to - 1n, decimals)}) ${tail} | ${unitsBody(to, to, decimals)}`;
  };
  const parts: string[] = [];
  if (low < 0n) parts.push(`"-" (${magnitudes(high < 0n ? -high : isInteger ? 1n : 0n, -low)})`);
  if (high >= 0n) parts.push(magnitudes(low > 0n ? low : 0n, high));
  return parts.join(" | ");
}

/** GBNF for the units `from` to `to`, without leading zeros and with a point before the last `decimals` digits. */
function unitsBody(from: bigint, to: bigint, decimals: number): string {
  const parts: string[] = [];
  const wholeLengths: number[] = [];
  for (let length = decimals + 1; ; length++) {
    const least = length === decimals + 1 ? 0n : 10n ** BigInt(length - 1);
    const most = 10n ** BigInt(length) - 1n;
    if (least > to) break;
    if (0n < least && from <= least && most <= to) wholeLengths.push(length - decimals);
    else if (from <= most) {
      const [low, high] = [from > least ? from : least, to < most ? to : most];
      parts.push(between(pointed(low, length, decimals), pointed(high, length, decimals)));
    }
  }
  // Lengths at which all digits are allowed share one alternative, so that the engine follows fewer alternatives.
  const [shortest] = wholeLengths;
  if (shortest !== undefined) {
    const fraction = decimals === 0 ? "" : ` "." [0-9]{${decimals}}`;
    parts.push(`[1-9] [0-9]{${shortest - 1},${(wholeLengths.at(-1) ?? shortest) - 1}}${fraction}`);
  }
  return parts.join(" | ");
}

function pointed(units: bigint, length: number, decimals: number): string {
  const digits = units.toString().padStart(length, "0");
  return decimals === 0 ? digits : `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`;
}

/** GBNF for the texts from `low` to `high`, which have equally many digits and the point, if any, at the same index. */
function between(low: string, high: string): string {
  if (low === high) return `"${low}"`;
  const lowest = low.replaceAll(/\d/g, "0");
  const highest = high.replaceAll(/\d/g, "9");
  if (low === lowest && high === highest) return anyDigits(low);
  const split = [...low].findIndex((digit, at) => digit !== high[at]);
  if (split > 0) return `"${low.slice(0, split)}" (${between(low.slice(split), high.slice(split))})`;
  const isLowFree = low.slice(1) === lowest.slice(1);
  const isHighFree = high.slice(1) === highest.slice(1);
  const first = Number(low[0]) + (isLowFree ? 0 : 1);
  const last = Number(high[0]) - (isHighFree ? 0 : 1);
  const parts: string[] = [];
  if (!isLowFree) parts.push(between(low, low.charAt(0) + highest.slice(1)));
  if (first <= last) parts.push(`[${first}-${last}] ${anyDigits(low.slice(1))}`.trimEnd());
  if (!isHighFree) parts.push(between(high.charAt(0) + lowest.slice(1), high));
  return parts.join(" | ");
}

/** GBNF for any digit in place of each digit of the text, and for its decimal point. */
function anyDigits(text: string): string {
  const runs = text.match(/\d+|\./g) ?? [];
  return runs.map((run) => (run === "." ? '"."' : `[0-9]{${run.length}}`)).join(" ");
}
