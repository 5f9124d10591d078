import {
  character,
  complementOf,
  type Pattern,
  PatternReader,
  PatternUnsupported,
  type Ranges,
  rangesOf,
  repeated,
} from "./pattern.js";

/** Maximum rules of one grammar, and maximum characters of a rule's name. */
const rulesMax = 1_000;
const nameCharsMax = 64;

/**
 * Reads the rules of a grammar in GBNF, the notation of llama.cpp, which is also the EBNF of XGrammar; one rule is `root`.
 * Throws PatternUnsupported for another notation, references to tokens, a missing `root`, and two rules of one name.
 */
export function rulesOfGbnf(grammar: string): ReadonlyMap<string, Pattern> {
  const reader = new PatternReader(grammar);
  const rules = new Map<string, Pattern>();
  skipSpace(reader);
  while (!reader.isAtEnd) {
    const name = readName(reader);
    skipSpace(reader);
    if (name === "" || !reader.take("::=")) {
      reader.refuse(
        "a rule of the form 'name ::= …' is needed: grammars are in GBNF, and Lark's notation is not supported",
      );
    }
    skipSpace(reader);
    if (rules.has(name)) reader.refuse(`the rule '${name}' is defined twice`);
    rules.set(name, readChoice(reader));
    if (rules.size > rulesMax) reader.refuse(`a grammar may have at most ${rulesMax} rules`);
  }
  if (!rules.has("root")) throw new PatternUnsupported("it has no rule 'root'");
  return rules;
}

/** Skips white space and comments. */
function skipSpace(reader: PatternReader): void {
  for (;;) {
    reader.takeWhile(/^[ \t\r\n]$/);
    if (reader.peek() !== "#") return;
    reader.takeWhile(/^[^\n]$/);
  }
}

function readName(reader: PatternReader): string {
  const name = reader.takeWhile(/^[A-Za-z0-9_-]$/, nameCharsMax + 1);
  if (name.length > nameCharsMax) reader.refuse(`the name of a rule may have at most ${nameCharsMax} characters`);
  return name;
}

function readChoice(reader: PatternReader): Pattern {
  const options = [readSequence(reader)];
  while (reader.take("|")) {
    skipSpace(reader);
    options.push(readSequence(reader));
  }
  const [only] = options;
  return options.length === 1 && only !== undefined ? only : { type: "choice", options };
}

function readSequence(reader: PatternReader): Pattern {
  const parts: Pattern[] = [];
  for (;;) {
    const next = reader.peek();
    if (next === undefined || next === "|" || next === ")" || isRuleAhead(reader)) return { type: "sequence", parts };
    let part = readAtom(reader);
    skipSpace(reader);
    for (let bounds = readBounds(reader); bounds !== null; bounds = readBounds(reader)) {
      part = repeated(part, ...bounds);
      skipSpace(reader);
    }
    parts.push(part);
  }
}

/** Whether the next rule begins here. */
function isRuleAhead(reader: PatternReader): boolean {
  let ahead = 0;
  while (ahead <= nameCharsMax && /^[A-Za-z0-9_-]$/.test(reader.peek(ahead) ?? "")) ahead += 1;
  if (ahead === 0) return false;
  while (/^[ \t]$/.test(reader.peek(ahead) ?? "")) ahead += 1;
  return reader.peek(ahead) === ":" && reader.peek(ahead + 1) === ":" && reader.peek(ahead + 2) === "=";
}

function readAtom(reader: PatternReader): Pattern {
  if (reader.take('"')) return readLiteral(reader);
  if (reader.take("[")) return { type: "set", ranges: readClass(reader) };
  if (reader.take(".")) return { type: "set", ranges: complementOf([]) };
  if (reader.take("(")) {
    skipSpace(reader);
    const inside = reader.inGroup(() => readChoice(reader));
    if (!reader.take(")")) reader.refuse("a '(' is not closed");
    return inside;
  }
  if (reader.peek() === "<" || reader.peek() === "!") reader.refuse("references to tokens are not supported");
  const name = readName(reader);
  if (name === "") reader.refuse(`'${reader.next()}' is not expected here`);
  return { type: "rule", name };
}

function readBounds(reader: PatternReader): readonly [min: number, max: number] | null {
  if (reader.take("*")) return [0, Number.POSITIVE_INFINITY];
  if (reader.take("+")) return [1, Number.POSITIVE_INFINITY];
  if (reader.take("?")) return [0, 1];
  if (!reader.take("{")) return null;
  skipSpace(reader);
  const min = readCount(reader);
  skipSpace(reader);
  let max = min;
  if (reader.take(",")) {
    skipSpace(reader);
    max = reader.peek() === "}" ? Number.POSITIVE_INFINITY : readCount(reader);
    skipSpace(reader);
  }
  if (!reader.take("}")) reader.refuse("a '{' is not closed");
  return [min, max];
}

function readCount(reader: PatternReader): number {
  const text = reader.takeWhile(/^[0-9]$/, 9);
  return text === "" ? reader.refuse("a number of repetitions is needed") : Number(text);
}

function readLiteral(reader: PatternReader): Pattern {
  const parts: Pattern[] = [];
  while (!reader.take('"')) parts.push(character(readCharacter(reader)));
  return { type: "sequence", parts };
}

function readClass(reader: PatternReader): Ranges {
  const isNegated = reader.take("^");
  const pairs: (readonly [number, number])[] = [];
  while (!reader.take("]")) {
    const first = readCharacter(reader);
    const isRange = reader.peek() === "-" && reader.peek(1) !== "]" && reader.take("-");
    const last = isRange ? readCharacter(reader) : first;
    if (last < first) reader.refuse("a range of characters has its ends in the wrong order");
    pairs.push([first, last]);
  }
  const ranges = rangesOf(pairs);
  return isNegated ? complementOf(ranges) : ranges;
}

const escapes: ReadonlyMap<string, number> = new Map([
  ["n", 0xa],
  ["r", 0xd],
  ["t", 0x9],
]);

function readCharacter(reader: PatternReader): number {
  const next = reader.next();
  if (next !== "\\") return next.codePointAt(0) ?? 0;
  const kind = reader.next();
  const control = escapes.get(kind);
  if (control !== undefined) return control;
  if (kind === "x") return reader.hex(2);
  if (kind === "u") return reader.hex(4);
  if (kind === "U") return reader.hex(8);
  if (/^[A-Za-z0-9]$/.test(kind)) reader.refuse(`the escape '\\${kind}' is not known`);
  return kind.codePointAt(0) ?? 0;
}
