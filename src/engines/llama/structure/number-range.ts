import type { SchemaDocument, SchemaObject } from "./schema-document.js";

/** Digits before the point of any number that a grammar lets through; enough for 10^15 - 1, which doubles hold exactly. */
export const integerDigitsMax = 15;

/** Digits after the point. */
export const fractionDigitsMax = 15;

/**
 * Bounds in units of `10^-decimals`, both inclusive. Numbers between two units are allowed as well, unless `decimals`
 * is 0 and the place is one for integers.
 */
export interface NumberRange {
  readonly low: bigint;
  readonly high: bigint;
  readonly decimals: number;
}

/** Decimals by which a range is finer than its bounds, so that little is lost beside an exclusive bound. */
const finerDecimals = 2;

/** Decimals of a range at most. Bounds with more are rounded inwards. */
const decimalsMax = 13;

const limit = 10n ** BigInt(integerDigitsMax) - 1n;

interface Bound {
  readonly schema: SchemaObject;
  readonly keyword: string;
  readonly value: number;
  readonly exclusive: boolean;
}

/**
 * The range that the bounds of all schemas leave to an integer; null: no bound is given. A range whose `low` is above
 * its `high` is empty.
 */
export function integerRange(document: SchemaDocument, schemas: readonly SchemaObject[]): NumberRange | null {
  let low = -limit;
  let high = limit;
  let bounded = false;
  for (const bound of boundsOf(document, schemas)) {
    bounded = true;
    if (bound.keyword.endsWith("inimum")) {
      const least = BigInt(Math.ceil(bound.value)) + (bound.exclusive && Number.isInteger(bound.value) ? 1n : 0n);
      if (least > low) low = least;
    } else {
      const most = BigInt(Math.floor(bound.value)) - (bound.exclusive && Number.isInteger(bound.value) ? 1n : 0n);
      if (most < high) high = most;
    }
  }
  return bounded ? { low, high, decimals: 0 } : null;
}

/** As `integerRange`, for numbers with a fraction. Bounds that are too fine are rounded inwards. */
export function numberRange(document: SchemaDocument, schemas: readonly SchemaObject[]): NumberRange | null {
  const bounds = boundsOf(document, schemas);
  if (bounds.length === 0) return null;
  const decimals = decimalsFor(bounds);
  const unit = 10n ** BigInt(decimals);
  let low = -limit * unit;
  let high = limit * unit;
  for (const bound of bounds) {
    const { units, isExact } = unitsBelow(bound.value, decimals);
    if (bound.keyword.endsWith("inimum")) {
      const least = isExact && !bound.exclusive ? units : units + 1n;
      if (least > low) low = least;
    } else {
      const most = isExact && bound.exclusive ? units - 1n : units;
      if (most < high) high = most;
    }
  }
  return { low, high, decimals };
}

/** As fine as the bounds and a little finer, but never so fine that a double cannot tell two units apart. */
function decimalsFor(bounds: readonly Bound[]): number {
  const finest = Math.max(...bounds.map((bound) => decimalsOf(bound.value)));
  const wanted = bounds.some((bound) => bound.exclusive) ? finest + finerDecimals : finest;
  const wholeDigits = Math.max(...bounds.map((bound) => Math.trunc(Math.abs(bound.value)).toString().length));
  return Math.min(wanted, decimalsMax, integerDigitsMax - wholeDigits);
}

function boundsOf(document: SchemaDocument, schemas: readonly SchemaObject[]): readonly Bound[] {
  const bounds: Bound[] = [];
  for (const schema of schemas) {
    for (const keyword of ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]) {
      const value = document.readNumber(schema, keyword);
      if (value === null || isBeyondDigits(document, schema, keyword, value)) continue;
      bounds.push({ schema, keyword, value, exclusive: keyword.startsWith("exclusive") });
    }
  }
  return bounds;
}

/** Whether a bound is so far out that the number of digits already keeps it; one that they cannot reach is given up. */
function isBeyondDigits(document: SchemaDocument, schema: SchemaObject, keyword: string, value: number): boolean {
  if (Math.abs(value) <= Number(limit)) return false;
  const outOfReach = keyword.endsWith("inimum") ? value > 0 : value < 0;
  if (outOfReach) document.giveUp(schema, keyword, `asks for a number of more than ${integerDigitsMax} digits`);
  return true;
}

function decimalsOf(value: number): number {
  const [digits = "", exponent = "0"] = value.toString().split("e");
  const fraction = digits.split(".")[1]?.length ?? 0;
  return Math.max(0, fraction - Number(exponent));
}

/** The greatest number of units that is not above a value, and whether it is the value. */
function unitsBelow(value: number, decimals: number): { readonly units: bigint; readonly isExact: boolean } {
  const [digits = "", exponent = "0"] = value.toString().split("e");
  const [whole = "", fraction = ""] = digits.split(".");
  const shift = decimals + Number(exponent) - fraction.length;
  const all = BigInt(whole + fraction);
  if (shift >= 0) return { units: all * 10n ** BigInt(shift), isExact: true };
  const divisor = 10n ** BigInt(-shift);
  const isExact = all % divisor === 0n;
  return { units: all / divisor - (all < 0n && !isExact ? 1n : 0n), isExact };
}
