/** One piece of a rule: a set of characters, the name of a rule, or a choice that may be repeated. */
export type Piece =
  | { readonly type: "set"; readonly ranges: readonly (readonly [first: number, last: number])[] }
  | { readonly type: "rule"; readonly name: string }
  | { readonly type: "repeat"; readonly choice: Choice; readonly min: number; readonly max: number };

/** Sequences of pieces, one of which applies. */
export type Choice = readonly (readonly Piece[])[];

export type Gbnf = ReadonlyMap<string, Choice>;

/** Reads the part of GBNF that our grammars use; throws on anything else. */
export function parseGbnf(text: string): Gbnf {
  const rules = new Map<string, Choice>();
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const [name, body] = cut(line, " ::= ");
    if (rules.has(name)) throw new Error(`the rule ${name} is there twice`);
    rules.set(name, new Reader(body).whole());
  }
  for (const choice of rules.values()) checkNames(choice, rules);
  return rules;
}

function cut(line: string, separator: string): readonly [string, string] {
  const at = line.indexOf(separator);
  if (at < 0) throw new Error(`no rule: ${line}`);
  return [line.slice(0, at), line.slice(at + separator.length)];
}

function checkNames(choice: Choice, rules: Gbnf): void {
  for (const piece of choice.flat()) {
    if (piece.type === "rule" && !rules.has(piece.name)) throw new Error(`no rule is named ${piece.name}`);
    if (piece.type === "repeat") checkNames(piece.choice, rules);
  }
}

const simpleEscapes = new Map([...'"\\[]-'].map((character) => [character, character]));
for (const [letter, character] of [
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
] as const) {
  simpleEscapes.set(letter, character);
}
const hexDigits = new Map([
  ["x", 2],
  ["u", 4],
  ["U", 8],
]);

class Reader {
  readonly #text: readonly string[];
  #at = 0;

  constructor(text: string) {
    this.#text = [...text];
  }

  whole(): Choice {
    const choice = this.#choice();
    if (this.#at < this.#text.length) throw new Error(`unexpected ${this.#text.slice(this.#at).join("")}`);
    return choice;
  }

  #choice(): Choice {
    const sequences = [this.#sequence()];
    while (this.#take("|")) sequences.push(this.#sequence());
    return sequences;
  }

  #sequence(): readonly Piece[] {
    const pieces: Piece[] = [];
    for (let next = this.#peek(); next !== undefined && next !== "|" && next !== ")"; next = this.#peek()) {
      const atom = this.#atom();
      const bounds = this.#bounds();
      if (bounds === null) pieces.push(...atom);
      else pieces.push({ type: "repeat", choice: [atom], ...bounds });
    }
    return pieces;
  }

  #atom(): readonly Piece[] {
    if (this.#take('"')) return this.#literal();
    if (this.#take("[")) return [this.#set()];
    if (this.#take("(")) {
      const choice = this.#choice();
      if (!this.#take(")")) throw new Error("a group is not closed");
      return [{ type: "repeat", choice, min: 1, max: 1 }];
    }
    let name = "";
    while (/[A-Za-z0-9-]/.test(this.#text[this.#at] ?? "")) name += this.#text[this.#at++];
    if (name === "") throw new Error(`unexpected ${this.#text.slice(this.#at).join("")}`);
    return [{ type: "rule", name }];
  }

  #literal(): readonly Piece[] {
    const pieces: Piece[] = [];
    while (this.#text[this.#at] !== '"') {
      const codePoint = this.#character();
      pieces.push({ type: "set", ranges: [[codePoint, codePoint]] });
    }
    this.#at++;
    return pieces;
  }

  #set(): Piece {
    const ranges: [number, number][] = [];
    while (this.#text[this.#at] !== "]") {
      const first = this.#character();
      let last = first;
      if (this.#text[this.#at] === "-" && this.#text[this.#at + 1] !== "]") {
        this.#at++;
        last = this.#character();
      }
      ranges.push([first, last]);
    }
    this.#at++;
    return { type: "set", ranges };
  }

  #character(): number {
    const character = this.#text[this.#at++];
    if (character === undefined) throw new Error("a text or set is not closed");
    if (character !== "\\") return character.codePointAt(0) ?? 0;
    const kind = this.#text[this.#at++] ?? "";
    const digits = hexDigits.get(kind);
    if (digits !== undefined) {
      const hex = this.#text.slice(this.#at, this.#at + digits).join("");
      this.#at += digits;
      return Number.parseInt(hex, 16);
    }
    const escaped = simpleEscapes.get(kind);
    if (escaped === undefined) throw new Error(`unknown escape \\${kind}`);
    return escaped.codePointAt(0) ?? 0;
  }

  #bounds(): { readonly min: number; readonly max: number } | null {
    const next = this.#peek();
    if (next === "*" || next === "?" || next === "+") {
      this.#at++;
      return { min: next === "+" ? 1 : 0, max: next === "?" ? 1 : Number.POSITIVE_INFINITY };
    }
    if (!this.#take("{")) return null;
    const end = this.#text.indexOf("}", this.#at);
    const [min = "", max] = this.#text.slice(this.#at, end).join("").split(",");
    this.#at = end + 1;
    return {
      min: Number(min),
      max: max === undefined ? Number(min) : max === "" ? Number.POSITIVE_INFINITY : Number(max),
    };
  }

  #peek(): string | undefined {
    while (this.#text[this.#at] === " ") this.#at++;
    return this.#text[this.#at];
  }

  #take(character: string): boolean {
    if (this.#peek() !== character) return false;
    this.#at++;
    return true;
  }
}
