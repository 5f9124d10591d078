import {
  anyCharacter,
  character,
  complementOf,
  type Pattern,
  PatternReader,
  PatternUnsupported,
  type Ranges,
  rangesOf,
  repeated,
} from "./pattern.js";

/**
 * Reads a regular expression that a whole text must match, in the syntax that Python and JavaScript share. `\d`, `\w` and
 * `\s` are ASCII. Throws PatternUnsupported for features that are not regular or not supported: look-around, back references,
 * word boundaries, anchors inside of the expression, flags and Unicode properties.
 */
export function patternOfRegex(regex: string): Pattern {
  const reader = new PatternReader(regex);
  const pattern = readChoice(reader);
  if (!reader.isAtEnd) reader.refuse("a ')' has no '('");
  return withoutAnchors(pattern, true, true);
}

/** Anchors are read as rules with these names, until their position in the whole expression is known. */
const startAnchor: Pattern = { type: "rule", name: "^" };
const endAnchor: Pattern = { type: "rule", name: "$" };
const nothing: Pattern = { type: "sequence", parts: [] };

/**
 * Removes the anchors. The whole text must match in any case, so anchors at the start and end add nothing. `isFirst` and
 * `isLast`: nothing of the expression comes before or after the pattern.
 */
function withoutAnchors(pattern: Pattern, isFirst: boolean, isLast: boolean): Pattern {
  switch (pattern.type) {
    case "set":
      return pattern;
    case "rule": {
      if (pattern === startAnchor ? isFirst : isLast) return nothing;
      const why = `'${pattern.name}' is supported only at the begin and end of the whole expression`;
      throw new PatternUnsupported(why);
    }
    case "choice":
      return { ...pattern, options: pattern.options.map((option) => withoutAnchors(option, isFirst, isLast)) };
    case "repeat": {
      const isSingle = pattern.max <= 1;
      return { ...pattern, part: withoutAnchors(pattern.part, isFirst && isSingle, isLast && isSingle) };
    }
    case "sequence": {
      const { parts } = pattern;
      const first = parts.findIndex((part) => part !== startAnchor);
      const last = parts.findLastIndex((part) => part !== endAnchor);
      return {
        ...pattern,
        parts: parts.map((part, i) =>
          withoutAnchors(part, isFirst && (i <= first || first < 0), isLast && (i >= last || last < 0)),
        ),
      };
    }
  }
}

function readChoice(reader: PatternReader): Pattern {
  const options = [readSequence(reader)];
  while (reader.take("|")) options.push(readSequence(reader));
  const [only] = options;
  return options.length === 1 && only !== undefined ? only : { type: "choice", options };
}

function readSequence(reader: PatternReader): Pattern {
  const parts: Pattern[] = [];
  for (let next = reader.peek(); next !== undefined && next !== "|" && next !== ")"; next = reader.peek()) {
    parts.push(readRepeated(reader));
  }
  return { type: "sequence", parts };
}

function readRepeated(reader: PatternReader): Pattern {
  const atom = readAtom(reader);
  const bounds = readBounds(reader);
  if (bounds === null) return atom;
  // A lazy repetition allows the same texts as a greedy one.
  reader.take("?");
  if (reader.peek() === "+" || reader.peek() === "*" || readBounds(reader) !== null) {
    reader.refuse("a repetition is repeated");
  }
  return repeated(atom, bounds.min, bounds.max);
}

interface Bounds {
  readonly min: number;
  readonly max: number;
}

/** Reads the bounds of a repetition; null if none follows. A brace without bounds is an ordinary character. */
function readBounds(reader: PatternReader): Bounds | null {
  if (reader.take("*")) return { min: 0, max: Number.POSITIVE_INFINITY };
  if (reader.take("+")) return { min: 1, max: Number.POSITIVE_INFINITY };
  if (reader.take("?")) return { min: 0, max: 1 };
  if (reader.peek() !== "{") return null;
  let text = "";
  for (let i = 0; reader.peek(i) !== undefined && text.length < 24 && !text.endsWith("}"); i++) text += reader.peek(i);
  const found = /^\{(\d*)(,?)(\d*)\}$/.exec(text);
  if (found === null || text === "{}") return null;
  const [, min = "", comma = "", max = ""] = found;
  reader.take(text);
  if (comma === "") return { min: Number(min), max: Number(min) };
  return { min: Number(min), max: max === "" ? Number.POSITIVE_INFINITY : Number(max) };
}

function readAtom(reader: PatternReader): Pattern {
  const next = reader.next();
  switch (next) {
    case "(":
      return readGroup(reader);
    case "[":
      return { type: "set", ranges: readClass(reader) };
    case ".":
      return anyCharacter;
    case "\\":
      return readEscape(reader);
    case "^":
      return startAnchor;
    case "$":
      return endAnchor;
    case "*":
    case "+":
    case "?":
      return reader.refuse(`'${next}' repeats nothing`);
    default:
      return character(next.codePointAt(0) ?? 0);
  }
}

function readGroup(reader: PatternReader): Pattern {
  if (reader.take("?") && !reader.take(":")) {
    const isNamed = (reader.take("P<") || reader.take("<")) && /^[A-Za-z_]$/.test(reader.peek() ?? "");
    if (!isNamed) reader.refuse("look-around, flags, conditions and references in groups are not supported");
    reader.takeWhile(/^\w$/);
    if (!reader.take(">")) reader.refuse("the name of a group is not closed");
  }
  const inside = reader.inGroup(() => readChoice(reader));
  if (!reader.take(")")) reader.refuse("a '(' is not closed");
  return inside;
}

const digits: Ranges = [[0x30, 0x39]];
const wordCharacters: Ranges = [
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
];
const spaces: Ranges = [
  [0x9, 0xd],
  [0x20, 0x20],
];

const classes: ReadonlyMap<string, Ranges> = new Map([
  ["d", digits],
  ["w", wordCharacters],
  ["s", spaces],
  ["D", complementOf(digits)],
  ["W", complementOf(wordCharacters)],
  ["S", complementOf(spaces)],
]);

const controls: ReadonlyMap<string, number> = new Map([
  ["n", 0xa],
  ["r", 0xd],
  ["t", 0x9],
  ["f", 0xc],
  ["v", 0xb],
]);

/** Reads the rest of an escape after its backslash, outside of a character class. */
function readEscape(reader: PatternReader): Pattern {
  if (reader.take("A")) return startAnchor;
  if (reader.take("Z") || reader.take("z")) return endAnchor;
  const ranges = classes.get(reader.peek() ?? "");
  if (ranges === undefined) return character(readEscapedCharacter(reader));
  reader.next();
  return { type: "set", ranges };
}

function readEscapedCharacter(reader: PatternReader): number {
  const kind = reader.next();
  const control = controls.get(kind);
  if (control !== undefined) return control;
  if (kind === "x") return reader.hex(2);
  if (kind === "u" && reader.take("{")) {
    const codePoint = Number.parseInt(reader.takeWhile(/^[0-9a-fA-F]$/, 6), 16);
    if (Number.isNaN(codePoint) || !reader.take("}")) reader.refuse("'\\u{' needs 1 to 6 hexadecimal digits and '}'");
    return reader.checkedCodePoint(codePoint);
  }
  if (kind === "u") return reader.hex(4);
  if (kind === "U") return reader.hex(8);
  if (/^[A-Za-z0-9]$/.test(kind)) reader.refuse(`'\\${kind}' is not supported`);
  return kind.codePointAt(0) ?? 0;
}

/** Reads a character class after its opening bracket. */
function readClass(reader: PatternReader): Ranges {
  const isNegated = reader.take("^");
  const pairs: (readonly [number, number])[] = [];
  for (let isFirst = true; isFirst || reader.peek() !== "]"; isFirst = false) {
    const first = readClassItem(reader);
    if (typeof first !== "number") {
      pairs.push(...first);
      continue;
    }
    if (reader.peek() !== "-" || reader.peek(1) === "]" || reader.peek(1) === undefined) {
      pairs.push([first, first]);
      continue;
    }
    reader.next();
    const last = readClassItem(reader);
    if (typeof last !== "number" || last < first) {
      return reader.refuse("a range of characters has its ends in the wrong order");
    }
    pairs.push([first, last]);
  }
  reader.next();
  const ranges = rangesOf(pairs);
  return isNegated ? complementOf(ranges) : ranges;
}

/** Reads one item of a character class: a code point, or the ranges of a class such as `\d`. */
function readClassItem(reader: PatternReader): number | Ranges {
  const next = reader.next();
  if (next === "[" && reader.peek() === ":") reader.refuse("classes such as '[:alpha:]' are not supported");
  if (next !== "\\") return next.codePointAt(0) ?? 0;
  const ranges = classes.get(reader.peek() ?? "");
  if (ranges !== undefined) {
    reader.next();
    return ranges;
  }
  return reader.take("b") ? 0x8 : readEscapedCharacter(reader);
}
