/** GBNF set of the characters that a JSON string holds unescaped, except those of `without`. */
export function plainClass(without: string): string {
  const cuts = [...new Set([...without, '"', "\\"])].map((character) => character.codePointAt(0) ?? 0);
  cuts.sort((a, b) => a - b);
  const ranges: string[] = [];
  for (const [first, last] of plainRanges) {
    let from = first;
    for (const cut of cuts.filter((each) => first <= each && each <= last)) {
      if (cut > from) ranges.push(rangeText(from, cut - 1));
      from = cut + 1;
    }
    if (from <= last) ranges.push(rangeText(from, last));
  }
  return `[${ranges.join("")}]`;
}

/** Whether a JSON string can hold the text unescaped. */
export function isPlain(text: string): boolean {
  return [...text].every((character) => {
    const codePoint = character.codePointAt(0) ?? 0;
    const isInRange = plainRanges.some(([first, last]) => first <= codePoint && codePoint <= last);
    return isInRange && character !== '"' && character !== "\\";
  });
}

/** All code points but control characters and surrogates, which UTF-8 cannot carry. */
const plainRanges: readonly (readonly [number, number])[] = [
  [0x20, 0x7e],
  [0xa0, 0xd7ff],
  [0xe000, 0xffff],
  [0x10000, 0x10ffff],
];

export function rangeText(first: number, last: number): string {
  return first === last ? codePointText(first) : `${codePointText(first)}-${codePointText(last)}`;
}

function codePointText(codePoint: number): string {
  const hex = codePoint.toString(16);
  if (codePoint <= 0xff) return `\\x${hex.padStart(2, "0")}`;
  return codePoint <= 0xffff ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}

/**
 * GBNF for one character of a JSON string as validators count it: a code point, unescaped or escaped. Escaped surrogates
 * only come in pairs, so that no text ends in half a character.
 */
export const characterBody = [
  plainClass(""),
  '"\\\\" (["\\\\/bfnrt] | "u" ([0-9abcefABCEF] [0-9a-fA-F]{3} | [dD] ([0-7] [0-9a-fA-F]{2} | [89abAB] [0-9a-fA-F]{2} "\\\\u" [dD] [c-fC-F] [0-9a-fA-F]{2})))',
].join(" | ");

/** Bounded runs of up to this many characters are counted one by one, longer runs in blocks of this many. */
const block = 64;

/** Elements that a bounded string adds to a grammar, in the engine's own form. */
export function stringCost(minLength: number, maxLength: number | null): number {
  const most = maxLength ?? minLength;
  return most <= block ? most * 4 : Math.ceil(most / block) * 5 + block * 8;
}

/** Maximum length of a bounded string in a grammar, in characters. */
export const stringLengthMax = 64_000;

/** Adds a rule to a grammar and returns its name, which begins with `hint`. */
export type AddRule = (hint: string, body: string) => string;

/**
 * GBNF for `min` to `max` repetitions of `character`, the name of a rule; `max` null: no maximum. Long runs consist of
 * blocks, so that the grammar grows with the square root of their length and the engine follows at most two paths.
 */
export function characterRun(character: string, min: number, max: number | null, addRule: AddRule): string {
  const [blocks, left] = [Math.floor(min / block), min % block];
  const parts = [
    blocks === 0 ? "" : `${addRule("block", `${character}{${block}}`)}{${blocks}}`,
    left === 0 ? "" : `${character}{${left}}`,
    max === null ? `${character}*` : atMost(character, max - min, addRule),
  ];
  return parts.filter((part) => part !== "").join(" ");
}

function atMost(character: string, count: number, addRule: AddRule): string {
  if (count <= block) return count === 0 ? "" : `${character}{0,${count}}`;
  const fullBlock = addRule("block", `${character}{${block}}`);
  const partBlock = addRule("part", `${character}{0,${block - 1}}`);
  let rest = addRule("run", `${character}{0,${count % block}}`);
  for (let left = Math.floor(count / block); left > 0; left--) {
    rest = addRule("run", `${fullBlock} ${rest} | ${partBlock}`);
  }
  return rest;
}

/** A `format` that a grammar can enforce. */
export interface StringFormat {
  /** GBNF for the inside of the JSON string. Narrower than the format allows where that keeps the grammar small. */
  readonly body: string;
  /** Lengths of the texts that `body` allows, in characters. */
  readonly shortest: number;
  readonly longest: number;
  /** Matches texts of the format, for the check of results. */
  readonly test: RegExp;
}

const hour = `([01] [0-9] | "2" [0-3])`;
const minute = "[0-5] [0-9]";
// Leap days are left out: the grammar would have to compute leap years.
const date = `[0-9]{4} "-" (("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01]) | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30") | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))`;
const time = `${hour} ":" ${minute} ":" ${minute} ("." [0-9]{1,9})? ("Z" | [+-] ${hour} ":" ${minute})`;
const octet = `("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9] [0-9] | [0-9])`;
const hex = (digits: number) => `[0-9a-f]{${digits}}`;
const label = "[a-z0-9]{1,20}";

const dateTest = String.raw`\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|[12]\d))`;
const timeTest = String.raw`(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[zZ]|[+-](?:[01]\d|2[0-3]):?[0-5]\d)`;
const octetTest = String.raw`(?:25[0-5]|2[0-4]\d|1?\d?\d)`;

const format = (body: string, shortest: number, longest: number, pattern: string): StringFormat => ({
  body,
  shortest,
  longest,
  test: new RegExp(`^${pattern}$`),
});

/** The formats that can be enforced, by name. */
export const formats: ReadonlyMap<unknown, StringFormat> = new Map([
  ["date", format(date, 10, 10, dateTest)],
  ["time", format(time, 9, 24, timeTest)],
  ["date-time", format(`${date} "T" ${time}`, 20, 35, `${dateTest}[tT]${timeTest}`)],
  [
    "uuid",
    format(
      [hex(8), hex(4), hex(4), hex(4), hex(12)].join(' "-" '),
      36,
      36,
      "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    ),
  ],
  ["ipv4", format([octet, octet, octet, octet].join(' "." '), 7, 15, String.raw`(?:${octetTest}\.){3}${octetTest}`)],
  [
    "email",
    format(
      `${label} ([._+-] ${label}){0,2} "@" ${label} ("-" ${label})? "." [a-z]{2,10}`,
      6,
      116,
      String.raw`[^\s@"]{1,64}@[^\s@"]{1,255}`,
    ),
  ],
]);

/** A GBNF literal that matches exactly this text. */
export function gbnfLiteral(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what must be escaped.
  return `"${text.replaceAll(/["\\]/g, "\\$&").replaceAll(/[\u0000-\u001f\u007f]/g, (c) => codePointText(c.charCodeAt(0)))}"`;
}

/** JSON on one line with a space after each colon and comma, the form that is most common in training data. */
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

/**
 * GBNF for exactly one of these texts. Two texts may begin alike, and one may be the beginning of another. Common
 * beginnings are factored out, so that the engine follows the differing ones only.
 */
export function oneOfTexts(texts: Iterable<string>, hint: string, addRule: AddRule): string {
  const alternatives: string[] = [];
  for (const [first, rests] of byFirstCharacter(texts)) {
    const shared = sharedStart(rests);
    const literal = first === "" && shared === "" ? '""' : gbnfLiteral(first + shared);
    const left = rests.map((rest) => rest.slice(shared.length));
    alternatives.push(left.every((rest) => rest === "") ? literal : `${literal} ${oneOfTexts(left, hint, addRule)}`);
  }
  return alternatives.length === 1 ? (alternatives[0] ?? "") : addRule(hint, alternatives.join(" | "));
}

/** Number of a text's first characters that are compared; names with the same start as a longer text are not allowed. */
const comparedChars = 64;

/**
 * GBNF for the inside of a JSON string of one or more plain characters that is none of these texts. The texts must consist
 * of plain characters as well. `rest`: GBNF for the text that may follow the first differing character.
 */
export function noneOfTexts(texts: Iterable<string>, rest: string, addRule: AddRule, depth = 0): string {
  const branches = byFirstCharacter(texts);
  const alternatives = [`${plainClass([...branches.keys()].join(""))} ${rest}`];
  for (const [first, rests] of branches) {
    if (first === "" || (depth + 1 === comparedChars && rests.some((left) => left !== ""))) continue;
    alternatives.push(`${gbnfLiteral(first)} ${noneOfTexts(rests, rest, addRule, depth + 1)}`);
  }
  if (depth > 0 && !branches.has("")) alternatives.push('""');
  return addRule("name", alternatives.join(" | "));
}

/** The rests of the texts after their first character, by that character; an empty text has the key "". */
function byFirstCharacter(texts: Iterable<string>): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, string[]>();
  for (const text of texts) {
    const [first = ""] = text;
    const group = groups.get(first);
    if (group === undefined) groups.set(first, [text.slice(first.length)]);
    else group.push(text.slice(first.length));
  }
  return groups;
}

/** The longest common prefix of the texts, in whole characters. */
function sharedStart([first = "", ...others]: readonly string[]): string {
  let length = 0;
  for (const character of first) {
    if (!others.every((other) => other.startsWith(character, length))) break;
    length += character.length;
  }
  return first.slice(0, length);
}
