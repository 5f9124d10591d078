/** Ranges of code points in ascending order, neither overlapping nor adjacent: first and last of each range. */
export type Ranges = readonly (readonly [first: number, last: number])[];

/** The texts that a regular expression or a rule of a grammar allows. */
export type Pattern =
  /** One character of a set. */
  | { readonly type: "set"; readonly ranges: Ranges }
  | { readonly type: "sequence"; readonly parts: readonly Pattern[] }
  | { readonly type: "choice"; readonly options: readonly Pattern[] }
  /** `max` may be infinite. */
  | { readonly type: "repeat"; readonly part: Pattern; readonly min: number; readonly max: number }
  | { readonly type: "rule"; readonly name: string };

/** A pattern that cannot be enforced; the message is public and begins with a lower-case letter. */
export class PatternUnsupported extends Error {
  override readonly name = "PatternUnsupported";
}

export const tooLarge =
  "it needs too many states; use fewer and shorter repetitions, and fewer alternatives that can continue with the same text";

/** Bounds the work on one pattern or grammar, which delays all other answers of the process. */
export class WorkBudget {
  #left: number;

  constructor(most: number) {
    this.#left = most;
  }

  /** Throws PatternUnsupported when the budget is used up. */
  spend(amount: number): void {
    this.#left -= amount;
    if (this.#left < 0) throw new PatternUnsupported(tooLarge);
  }
}

/** Every code point that a text can contain: not U+0000, which ends texts of the native code, and no surrogates. */
const everything: Ranges = [
  [0x1, 0xd7ff],
  [0xe000, 0x10ffff],
];

/** The ranges sorted and merged, without code points that no text can contain. */
export function rangesOf(pairs: Ranges): Ranges {
  const clipped = everything.flatMap(([first, last]) =>
    pairs.map(([from, to]) => [Math.max(from, first), Math.min(to, last)] as const).filter(([from, to]) => from <= to),
  );
  clipped.sort(([a], [b]) => a - b);
  const merged: [number, number][] = [];
  for (const [from, to] of clipped) {
    const previous = merged.at(-1);
    if (previous !== undefined && from <= previous[1] + 1) previous[1] = Math.max(previous[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

/** All code points that are not in the ranges. */
export function complementOf(ranges: Ranges): Ranges {
  const gaps: [number, number][] = [];
  let from = 0;
  for (const [first, last] of ranges) {
    if (first > from) gaps.push([from, first - 1]);
    from = last + 1;
  }
  gaps.push([from, 0x10ffff]);
  return rangesOf(gaps.filter(([first, last]) => first <= last));
}

/** The code points that are in both lists of ranges. */
export function sharedRanges(left: Ranges, right: Ranges): Ranges {
  const shared: (readonly [number, number])[] = [];
  let i = 0;
  let j = 0;
  for (let a = left[0], b = right[0]; a !== undefined && b !== undefined; a = left[i], b = right[j]) {
    const [first, last] = [Math.max(a[0], b[0]), Math.min(a[1], b[1])];
    if (first <= last) shared.push([first, last]);
    if (a[1] < b[1]) i += 1;
    else j += 1;
  }
  return shared;
}

/** The code points of the first that are not in the second. */
export function rangesWithout(ranges: Ranges, without: Ranges): Ranges {
  return sharedRanges(ranges, complementOf(without));
}

export function character(codePoint: number): Pattern {
  return { type: "set", ranges: rangesOf([[codePoint, codePoint]]) };
}

/** Any character but a line end. */
export const anyCharacter: Pattern = { type: "set", ranges: complementOf([[0xa, 0xa]]) };

/** Most repetitions that a bound may state. */
const timesMax = 10_000;

/** A repetition of the part. Throws PatternUnsupported for bounds in the wrong order, or too large ones. */
export function repeated(part: Pattern, min: number, max: number): Pattern {
  if (max < min) throw new PatternUnsupported(`a repetition has the bounds ${min} and ${max} in the wrong order`);
  if (min > timesMax || (max !== Number.POSITIVE_INFINITY && max > timesMax)) {
    throw new PatternUnsupported(`a repetition may be bounded by at most ${timesMax}`);
  }
  return { type: "repeat", part, min, max };
}

/** Maximum nesting of groups. */
const groupsMax = 100;

/** Reads the text of a pattern character by character; its errors state the position. */
export class PatternReader {
  readonly #characters: readonly string[];
  #at = 0;
  #groups = 0;

  constructor(text: string) {
    this.#characters = [...text];
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#characters.length;
  }

  /** The character `ahead` positions after the next one, which is not read; undefined at the end. */
  peek(ahead = 0): string | undefined {
    return this.#characters[this.#at + ahead];
  }

  /** The next character; throws at the end. */
  next(): string {
    const character = this.#characters[this.#at];
    if (character === undefined) return this.refuse("it ends too early");
    this.#at += 1;
    return character;
  }

  /** Reads `text` if it comes next; returns whether it did. */
  take(text: string): boolean {
    const expected = [...text];
    if (!expected.every((character, i) => this.peek(i) === character)) return false;
    this.#at += expected.length;
    return true;
  }

  /** Reads the longest run of characters that match. */
  takeWhile(allowed: RegExp, most = Number.POSITIVE_INFINITY): string {
    let text = "";
    while (text.length < most && allowed.test(this.peek() ?? "")) text += this.next();
    return text;
  }

  /** Reads a code point of this many hexadecimal digits. */
  hex(digits: number): number {
    const text = this.takeWhile(/^[0-9a-fA-F]$/, digits);
    if (text.length !== digits) this.refuse(`${digits} hexadecimal digits are needed`);
    return this.checkedCodePoint(Number.parseInt(text, 16));
  }

  checkedCodePoint(codePoint: number): number {
    return codePoint <= 0x10ffff ? codePoint : this.refuse("there is no such character");
  }

  /** Calls `read` for the contents of a group. */
  inGroup<T>(read: () => T): T {
    this.#groups += 1;
    if (this.#groups > groupsMax) this.refuse(`more than ${groupsMax} groups are nested`);
    const result = read();
    this.#groups -= 1;
    return result;
  }

  refuse(why: string): never {
    throw new PatternUnsupported(`at character ${this.#at + 1}: ${why}`);
  }
}
