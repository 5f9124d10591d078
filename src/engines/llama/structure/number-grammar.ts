import { fractionDigitsMax, integerDigitsMax, type NumberRange } from "./number-range.js";

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
