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

/** Any whole number of at most 15 digits. */
export const anyInteger = `"-"? ("0" | [1-9] [0-9]{0,${integerDigitsMax - 1}})`;

/** Any number of at most 15 digits, 15 decimals and an exponent of two digits. */
export const anyNumber = `${anyInteger} ("." [0-9]{1,${fractionDigitsMax}})? ([eE] [-+]? [0-9]{1,2})?`;

/** GBNF alternatives for exactly the integers of a range that is not empty. */
export function integerAlternatives({ low, high }: NumberRange): readonly string[] {
  return signed(low, high, 1n, (from, to) => digitRuns(from, to, 1).map((run) => runText(run, 0)));
}

/** GBNF alternatives for the numbers of a range that is not empty: its units and what lies between two of them. */
export function numberAlternatives({ low, high, decimals }: NumberRange): readonly string[] {
  const width = decimals + 1;
  const finer = fractionDigitsMax - decimals;
  const tail = decimals === 0 ? ` ("." [0-9]{1,${finer}})?` : ` [0-9]{0,${finer}}`;
  return signed(low, high, 0n, (from, to) => {
    const end = digitRuns(to, to, width).map((run) => runText(run, decimals));
    if (from === to) return end;
    return [...digitRuns(from, to - 1n, width).map((run) => runText(run, decimals) + tail), ...end];
  });
}

/** Splits a range at zero and writes both halves by their magnitudes; that of a negative is at least `leastNegative`. */
function signed(
  low: bigint,
  high: bigint,
  leastNegative: bigint,
  magnitudes: (from: bigint, to: bigint) => readonly string[],
): string[] {
  const negative = low < 0n ? magnitudes(high < 0n ? -high : leastNegative, -low) : [];
  const positive = high >= 0n ? magnitudes(low > 0n ? low : 0n, high) : [];
  return [...negative.map((text) => `"-" ${text}`), ...positive];
}

/** Digits from `first` to `last` at each position; the whole run may be followed by up to `more` digits of any value. */
interface DigitRun {
  readonly digits: readonly (readonly [first: number, last: number])[];
  readonly more: number;
}

/** The numbers `from` to `to` as runs of digits: without leading zeros, but with those that `width` asks for. */
function digitRuns(from: bigint, to: bigint, width: number): readonly DigitRun[] {
  const runs: DigitRun[] = [];
  for (let length = width; ; length++) {
    const least = length === width ? 0n : 10n ** BigInt(length - 1);
    const most = 10n ** BigInt(length) - 1n;
    if (least > to) break;
    const low = from > least ? from : least;
    const high = to < most ? to : most;
    if (low <= high) runs.push(...sameLength(digitsOf(low, length), digitsOf(high, length)));
  }
  return joined(runs);
}

/** The numbers between two of one length, as few runs as there are digits, twice. */
function sameLength(low: readonly number[], high: readonly number[]): readonly DigitRun[] {
  const runs: DigitRun[] = [];
  const add = (head: readonly number[], first: number, last: number) => {
    if (first > last) return;
    const free = Array.from({ length: low.length - head.length - 1 }, () => [0, 9] as const);
    runs.push({ digits: [...head.map((digit) => [digit, digit] as const), [first, last], ...free], more: 0 });
  };
  const split = low.findIndex((digit, at) => digit !== high[at]);
  if (split < 0) return [{ digits: low.map((digit) => [digit, digit] as const), more: 0 }];
  const lowFree = low.slice(split + 1).every((digit) => digit === 0);
  const highFree = high.slice(split + 1).every((digit) => digit === 9);
  add(low.slice(0, split), at(low, split) + (lowFree ? 0 : 1), at(high, split) - (highFree ? 0 : 1));
  if (!lowFree) {
    for (let place = split + 1; place < low.length; place++) {
      const isLast = place === low.length - 1;
      add(low.slice(0, place), at(low, place) + (isLast ? 0 : 1), 9);
    }
  }
  if (!highFree) {
    for (let place = split + 1; place < high.length; place++) {
      const isLast = place === high.length - 1;
      add(high.slice(0, place), 0, at(high, place) - (isLast ? 0 : 1));
    }
  }
  return runs;
}

/** Joins runs that differ only in how many free digits follow, so that fewer alternatives are open at a time. */
function joined(runs: readonly DigitRun[]): readonly DigitRun[] {
  const out: DigitRun[] = [];
  for (const run of runs) {
    const last = out.at(-1);
    const grows =
      last !== undefined &&
      run.digits.length === last.digits.length + last.more + 1 &&
      isFullRun(run) &&
      isFullRun(last);
    if (grows) out[out.length - 1] = { digits: last.digits, more: last.more + 1 };
    else out.push(run);
  }
  return out;
}

/** 1 to 9 and then any digits. */
function isFullRun({ digits }: DigitRun): boolean {
  return digits.every(([first, last], place) => first === (place === 0 ? 1 : 0) && last === 9);
}

function runText({ digits, more }: DigitRun, decimals: number): string {
  const whole = digits.slice(0, digits.length - decimals);
  const fraction = digits.slice(digits.length - decimals);
  if (decimals === 0) return classes(whole, more);
  // With a fixed number of decimals, what follows a full run grows the part before the point.
  return `${classes(whole, more)} "." ${classes(fraction, 0)}`;
}

function classes(digits: readonly (readonly [number, number])[], more: number): string {
  const freeFrom = digits.length - countFree(digits);
  const texts = digits
    .slice(0, freeFrom)
    .map(([first, last]) => (first === last ? `"${first}"` : `[${first}-${last}]`));
  const least = digits.length - freeFrom;
  if (least + more === 1 && more === 0) texts.push("[0-9]");
  else if (least + more > 0) texts.push(more === 0 ? `[0-9]{${least}}` : `[0-9]{${least},${least + more}}`);
  return texts.join(" ");
}

function countFree(digits: readonly (readonly [number, number])[]): number {
  const held = digits.findLastIndex(([first, last]) => first !== 0 || last !== 9);
  return digits.length - 1 - held;
}

function digitsOf(value: bigint, length: number): readonly number[] {
  return [...value.toString().padStart(length, "0")].map(Number);
}

function at(digits: readonly number[], place: number): number {
  return digits[place] ?? 0;
}
