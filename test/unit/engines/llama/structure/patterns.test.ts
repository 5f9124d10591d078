import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { TextFormat } from "../../../../../src/domain/engine/text-format.js";
import { PatternUnsupported } from "../../../../../src/engines/llama/structure/pattern.js";
import { isJsonFormat, plainGrammar } from "../../../../../src/engines/llama/structure/response-grammar.js";
import { exampleGrammars } from "../../../../support/gbnf/example-grammars.js";
import { Matcher } from "../../../../support/gbnf/match.js";
import { parseGbnf } from "../../../../support/gbnf/parse-gbnf.js";

function gbnfOf(format: TextFormat): string {
  if (isJsonFormat(format)) throw new Error("the format is JSON");
  return plainGrammar(format);
}

const matcherOf = (format: TextFormat) => new Matcher(parseGbnf(gbnfOf(format)));
const regex = (text: string): TextFormat => ({ type: "regex", regex: text });
const gbnf = (text: string): TextFormat => ({ type: "grammar", grammar: text });

/** The texts that the format allows. */
function accepted(format: TextFormat, texts: readonly string[]): readonly string[] {
  const matcher = matcherOf(format);
  return texts.filter((text) => matcher.match(text).matches);
}

/** The error message for a format that cannot be enforced, and the processor time that the refusal took. */
function refusal(format: TextFormat): { readonly message: string; readonly costMs: number } {
  const { user } = process.cpuUsage();
  try {
    gbnfOf(format);
  } catch (thrown) {
    if (thrown instanceof PatternUnsupported) {
      return { message: thrown.message, costMs: (process.cpuUsage().user - user) / 1_000 };
    }
    throw thrown;
  }
  throw new Error("the format was not refused");
}

const letter = (i: number): string => String.fromCharCode(0x4e00 + i);
const numbered = (count: number, text: (i: number) => string, separator: string): string =>
  Array.from({ length: count }, (_, i) => text(i)).join(separator);

/** Time limit of compiling one format: five times 100 ms, because other tests may slow the machine. */
const compileMs = 5 * 100;

describe("a choice", () => {
  it("allows exactly its texts, also if one begins with another or is empty (E-5)", () => {
    const choices = ["Pizza", "Pi", "", 'say "\\n"\n', "日本"];
    const others = ["P", "Pizz", "Pizza ", "日"];
    expect(accepted({ type: "choice", choices }, [...choices, ...others])).toEqual(choices);
  });

  it("of 1,000 texts has one path for each text that is still possible (E-5)", () => {
    const choices = Array.from({ length: 1_000 }, (_, i) => `item number ${i}`);
    const { matches, pathsMax } = matcherOf({ type: "choice", choices }).match("item number 999");
    expect({ matches, isNarrow: pathsMax <= 11 }).toEqual({ matches: true, isNarrow: true });
  });
});

describe("a regular expression", () => {
  it.each<[regex: string, right: readonly string[], wrong: readonly string[]]>([
    ["(Pizza|Pasta|Salad)", ["Pizza", "Salad"], ["", "Pizz", "Pizza "]],
    ["^(?:[a-z]{2,4}@(?P<host>\\w+)\\.com|(?:\\d{3}-)?\\d{4})$", ["ab@x_1.com", "555-1234"], ["a@x.com", "55-1234"]],
    ["(^a|b$)", ["a", "b"], ["ab", ""]],
    ['\\A[^\\n"]{0,3}?\\.?\\Z', ["", "é🙂", "abc."], ["a\n", "abcd"]],
    ["(a+)+b", ["aab"], ["aa"]],
    ["{a}{,3}x{2}", ["{a}}xx", "{axx"], ["{a}x"]],
    ["[]a-c\\]\\d-]+", ["]a-9"], ["d", ""]],
    ["\\x41\\u00e9\\U0001f642\\t\\.\\ ", ["Aé🙂\t. "], ["Aé🙂\t."]],
    ["a||b", ["a", "b", ""], ["ab"]],
  ])("%s must match the whole text (E-5)", (text, right, wrong) => {
    expect(accepted(regex(text), [...right, ...wrong])).toEqual(right);
  });

  it("whose parts can continue with the same text needs no state for each part (E-5)", () => {
    const grammar = gbnfOf(regex(`(${numbered(60, (i) => letter(i) + letter(i + 1), "|")}){12}`));
    expect(grammar.split("\n").length).toBeLessThan(12 * 63);
  });

  const letters = fc.constantFrom("a", "b", "[ab]", "[^a]", ".", "(?:)");
  const expressions = fc.letrec<{ whole: string }>((tie) => ({
    whole: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      letters,
      fc.tuple(tie("whole"), tie("whole")).map(([left, right]) => left + right),
      fc.tuple(tie("whole"), tie("whole")).map(([left, right]) => `(?:${left}|${right})`),
      fc
        .tuple(tie("whole"), fc.constantFrom("*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"))
        .map(([part, times]) => `(?:${part})${times}`),
    ),
  })).whole;

  it("allows what JavaScript matches, on one path for each character, for random expressions (E-5)", () => {
    const texts = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 6 }), { maxLength: 8 });
    fc.assert(
      fc.property(expressions, texts, (expression, samples) => {
        const grammar = gbnfOf(regex(expression));
        const matcher = new Matcher(parseGbnf(grammar));
        const own = new RegExp(`^(?:${expression})$`);
        for (const sample of samples) {
          const { matches, pathsMax } = matcher.match(sample);
          expect([expression, sample, matches]).toEqual([expression, sample, own.test(sample)]);
          // Disjoint alternatives of one state, and the end: a, b, a line end and other characters.
          expect(pathsMax).toBeLessThanOrEqual(5);
        }
      }),
      { numRuns: 60 },
    );
  });

  it.each([
    ["a^b", "'^' is supported only"],
    ["(a$)*", "'$' is supported only"],
    ["(?=a)a", "look-around"],
    ["(?<!a)b", "look-around"],
    ["(?i)a", "flags"],
    ["(a)\\1", "'\\1' is not supported"],
    ["\\bx", "'\\b' is not supported"],
    ["\\p{L}", "'\\p' is not supported"],
    ["[[:alpha:]]", "[:alpha:]"],
    ["a**", "repeated"],
    ["a*+", "repeated"],
    ["*a", "repeats nothing"],
    ["[z-a]", "wrong order"],
    ["a{3,2}", "wrong order"],
    ["(a", "not closed"],
    ["a)", "has no '('"],
    ["[a", "ends too early"],
    ["a\\", "ends too early"],
    ["\\xg1", "hexadecimal"],
    ["[^\\s\\S]", "no text satisfies it"],
  ])("%s is refused with the reason (E-5)", (text, why) => {
    expect(refusal(regex(text)).message).toContain(why);
  });

  it.each([
    ["a large number of states", "(a|b)*a(a|b){20}"],
    ["nested repetitions", "((((a{100}){100}){100}){100})"],
    ["nested repetitions of nothing", "(((){9999}){9999}){9999}"],
    ["many optional parts", "a?".repeat(3_000)],
    ["many overlapping parts", `(${numbered(2_000, (i) => `.{${i}}x`, "|")})*`],
    ["a long class, many times", `[${numbered(3_000, (i) => letter(2 * i), "")}]{2000}`],
    ["deep groups", `${"(".repeat(20_000)}a${")".repeat(20_000)}`],
    ["a huge repetition", "a{99999}"],
  ])("with %s is refused within a bounded time (E-5, SEC-10)", (_, text) => {
    expect(refusal(regex(text)).costMs).toBeLessThan(compileMs);
  });
});

describe("a grammar in GBNF", () => {
  it.each(exampleGrammars)("$name: allows its texts on few paths (E-5)", ({ grammar, right, wrong }) => {
    expect(accepted(gbnf(grammar), [...right, ...wrong])).toEqual(right);
    for (const text of right) expect(matcherOf(gbnf(grammar)).match(text).pathsMax).toBeLessThanOrEqual(16);
  });

  it("limits recursion to 32 levels, but not a rule that ends with a call of itself (E-5)", () => {
    const nested = (levels: number) => `${"(".repeat(levels)}x${")".repeat(levels)}`;
    const texts = [nested(0), nested(31), nested(32), nested(33)];
    expect(accepted(gbnf('root ::= "(" root ")" | "x"'), texts)).toEqual(texts.slice(0, 3));
    const list = "- a\n".repeat(1_000);
    expect(accepted(gbnf('root ::= item root | item\nitem ::= "- " [a-z] "\\n"'), [list])).toEqual([list]);
  });

  it("a recursive rule that can either continue or end before a character only continues (E-5)", () => {
    const list = gbnf('root ::= v ws\nv ::= "[" ws (v ws)* "]" ws | "1"\nws ::= " "*');
    const { matches, pathsMax } = matcherOf(list).match("[1[ ] 1[1]  ]  ");
    expect({ matches, isNarrow: pathsMax <= 4 }).toEqual({ matches: true, isNarrow: true });
    expect(accepted(list, ["[1[] 1]", "[1 1]", "1 ", "[1"])).toEqual(["[1[] 1]"]);
  });

  it("keeps all alternatives of a recursive rule that begin with the same character (E-5)", () => {
    const grammar = 'root ::= "x" root b | "x" root c | "x"\nb ::= "y"\nc ::= "z"';
    const right = ["x", "xxy", "xxz", "xxxyz"];
    expect(accepted(gbnf(grammar), [...right, "xx", "xy"])).toEqual(right);
  });

  it.each([
    ["start: a\na: /x/", "Lark's notation is not supported"],
    ['a ::= "b"', "no rule 'root'"],
    ["root ::= a", "the rule 'a' is missing"],
    ['root ::= "a"\nroot ::= "b"', "defined twice"],
    ['root ::= root "a" | "a"', "left recursion"],
    ['root ::= a\na ::= b "x"\nb ::= a | "y"', "left recursion"],
    ['root ::= "a" root', "no text satisfies it"],
    ["root ::= <[3]>", "references to tokens"],
    ['root ::= "a', "ends too early"],
    ['root ::= ("a"', "not closed"],
    ['root ::= "a"{2', "not closed"],
    ['root ::= "\\q"', "not known"],
    ["root ::= %a", "not expected"],
    ['root ::= s\ns ::= "a" s "a" | "b" s "b" | ""', "the recursive rule 's' can go on"],
    ['root ::= x "b"\nx ::= "(" x ")" "b"* | "a"', "a recursive rule goes on wherever it can"],
    [`root ::= ${"r".repeat(65)}`, "64 characters"],
  ])("%j is refused with the reason (E-5)", (text, why) => {
    expect(refusal(gbnf(text)).message).toContain(why);
  });

  it.each([
    [
      "alternatives that multiply",
      `root ::= ${"a ".repeat(60)}\na ::= ${"b ".repeat(60)}\nb ::= ${"c ".repeat(60)}\nc ::= "x" | "xx" | ""`,
    ],
    [
      "a chain of rules that double",
      Array.from({ length: 40 }, (_, i) => `${i === 0 ? "root" : `r${i}`} ::= r${i + 1} r${i + 1}`).join("\n") +
        '\nr40 ::= "x"',
    ],
    [
      "many rules",
      Array.from({ length: 1_200 }, (_, i) => `${i === 0 ? "root" : `r${i}`} ::= "a" r${i + 1}`).join("\n"),
    ],
    ["deep groups", `root ::= ${"(".repeat(20_000)}"a"${")".repeat(20_000)}`],
    [
      "many rules that contain themselves",
      `root ::= ${numbered(400, (i) => `r${i}`, " | ")}\n${numbered(400, (i) => `r${i} ::= "${letter(i)}" [a-z]{0,400} r${i} "." | "!"`, "\n")}`,
    ],
    [
      "many rules that repeat nothing",
      `root ::= ${numbered(900, (i) => `r${i}`, " ")}\n${numbered(900, (i) => `r${i} ::= ("x"*){5000} r${i} "b" | "c"`, "\n")}`,
    ],
    [
      "a long chain of empty rules",
      `root ::= r0 "x"\n${numbered(950, (i) => `r${i} ::= ${'"a" | '.repeat(6)}r${i + 1}`, "\n")}\nr950 ::= ""`,
    ],
    [
      "many recursive rules",
      `root ::= ${numbered(300, (i) => `r${i}`, " | ")}\n${numbered(300, (i) => `r${i} ::= "${letter(i)}" ("a"{20} root)? "."`, "\n")}`,
    ],
  ])("with %s is refused within a bounded time (E-5, SEC-10)", (_, text) => {
    expect(refusal(gbnf(text)).costMs).toBeLessThan(compileMs);
  });
});
