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

/** A `format` that a grammar can enforce. */
export interface StringFormat {
  /** GBNF for the inside of the JSON string. Narrower than the format allows where that keeps the grammar small. */
  readonly body: string;
  /** Lengths of what `body` lets through, in characters. */
  readonly shortest: number;
  readonly longest: number;
  /** Whether a text is of the format, for the check of results. */
  readonly test: RegExp;
}

const hour = `([01] [0-9] | "2" [0-3])`;
const minute = "[0-5] [0-9]";
// Leap days are left out: they would need the grammar to know leap years.
const date = `[0-9]{4} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))`;
const time = `${hour} ":" ${minute} ":" ${minute} ("." [0-9]{1,9})? ("Z" | [+-] ${hour} ":" ${minute})`;
const octet = `("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9] [0-9] | [0-9])`;
const hex = (digits: number) => `[0-9a-f]{${digits}}`;
const label = "[a-z0-9]{1,20}";

const dateTest = String.raw`\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|[12]\d))`;
const timeTest = String.raw`(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):?[0-5]\d)`;
const octetTest = String.raw`(?:25[0-5]|2[0-4]\d|1?\d?\d)`;

const formats: ReadonlyMap<string, StringFormat> = new Map([
  ["date", { body: date, shortest: 10, longest: 10, test: whole(dateTest) }],
  ["time", { body: time, shortest: 9, longest: 24, test: whole(timeTest) }],
  ["date-time", { body: `${date} "T" ${time}`, shortest: 20, longest: 35, test: whole(`${dateTest}[tT]${timeTest}`) }],
  [
    "uuid",
    {
      body: [hex(8), hex(4), hex(4), hex(4), hex(12)].join(' "-" '),
      shortest: 36,
      longest: 36,
      test: whole("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
    },
  ],
  [
    "ipv4",
    {
      body: [octet, octet, octet, octet].join(' "." '),
      shortest: 7,
      longest: 15,
      test: whole(String.raw`(?:${octetTest}\.){3}${octetTest}`),
    },
  ],
  [
    "email",
    {
      body: `${label} ([._+-] ${label}){0,2} "@" ${label} ("-" ${label})? "." [a-z]{2,10}`,
      shortest: 6,
      longest: 116,
      test: whole(String.raw`[^\s@"]{1,64}@[^\s@"]{1,255}`),
    },
  ],
]);

/** Names of the formats that can be enforced. */
export const formatNames: readonly string[] = [...formats.keys()];

export function stringFormat(name: string): StringFormat | null {
  return formats.get(name) ?? null;
}

function whole(pattern: string): RegExp {
  return new RegExp(`^${pattern}$`);
}

const escapes: Readonly<Record<string, string>> = { '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** A GBNF literal that matches exactly this text. */
export function gbnfLiteral(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must be escaped.
  return `"${text.replaceAll(/["\\\u0000-\u001f\u007f]/g, escaped)}"`;
}

/** JSON on one line with a space after each colon and comma, the way most models have seen it. */
export function jsonText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonText).join(memberSeparator)}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([name, member]) => JSON.stringify(name) + nameSeparator + jsonText(member),
  );
  return `{${members.join(memberSeparator)}}`;
}

export const nameSeparator = ": ";
export const memberSeparator = ", ";

function escaped(character: string): string {
  return escapes[character] ?? `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`;
}

/** Where the rules of a grammar are put; returns the new rule's name, which begins with `hint`. */
export type AddRule = (hint: string, body: string) => string;

/** Texts that share their beginnings. Keeps what an engine must try at each character down to the differing ones. */
interface Branch {
  ends: boolean;
  /** A text went on from here, but was too long to be planted. */
  cut: boolean;
  readonly next: Map<string, Branch>;
}

/** GBNF for exactly one of these texts. Two texts may begin alike, and one may be the beginning of another. */
export function oneOfTexts(texts: Iterable<string>, hint: string, addRule: AddRule): string {
  return branchText(plant(texts), hint, addRule);
}

/** Characters that a JSON string holds unescaped. */
export interface PlainCharacters {
  /** GBNF set of all of them but these. */
  readonly without: (characters: string) => string;
  /** GBNF for what may follow the first differing character. */
  readonly rest: string;
}

/** Characters of a text that are compared one by one; what begins like a longer text is left out altogether. */
const comparedChars = 64;

/**
 * GBNF for the inside of a JSON string of one or more plain characters that is none of these texts, which must be made
 * of plain characters themselves.
 */
export function noneOfTexts(texts: Iterable<string>, plain: PlainCharacters, addRule: AddRule): string {
  const write = (branch: Branch, isStart: boolean): string => {
    const alternatives = [`${plain.without([...branch.next.keys()].join(""))} ${plain.rest}`];
    for (const [character, next] of branch.next) {
      if (!next.cut) alternatives.push(`${gbnfLiteral(character)} ${write(next, false)}`);
    }
    if (!isStart && !branch.ends) alternatives.push('""');
    return addRule("name", alternatives.join(" | "));
  };
  return write(plant(texts, comparedChars), true);
}

function plant(texts: Iterable<string>, charsMax = Number.POSITIVE_INFINITY): Branch {
  const root: Branch = { ends: false, cut: false, next: new Map() };
  for (const text of texts) {
    let branch = root;
    let chars = 0;
    for (const character of text) {
      if (++chars > charsMax) {
        branch.cut = true;
        break;
      }
      let next = branch.next.get(character);
      if (next === undefined) {
        next = { ends: false, cut: false, next: new Map() };
        branch.next.set(character, next);
      }
      branch = next;
    }
    branch.ends = true;
  }
  return root;
}

function branchText(root: Branch, hint: string, addRule: AddRule): string {
  const alternatives: string[] = root.ends ? ['""'] : [];
  for (const [character, next] of root.next) {
    let straight = character;
    let branch = next;
    for (let only = onlyNext(branch); only !== null; only = onlyNext(branch)) {
      straight += only[0];
      branch = only[1];
    }
    const rest = branch.next.size === 0 ? "" : ` ${branchText(branch, hint, addRule)}`;
    alternatives.push(gbnfLiteral(straight) + rest);
  }
  return alternatives.length === 1 ? (alternatives[0] ?? "") : addRule(hint, alternatives.join(" | "));
}

function onlyNext(branch: Branch): readonly [string, Branch] | null {
  if (branch.ends || branch.next.size !== 1) return null;
  const [only] = branch.next;
  return only ?? null;
}
