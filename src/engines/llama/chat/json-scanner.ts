/** What the next character belongs to; `inside`: a text, number or word that is not over. */
export type JsonExpects = "value" | "key" | "colon" | "comma" | "inside" | "end";

const depthMax = 512;
const words: Readonly<Record<string, string>> = { t: "true", f: "false", n: "null" };

type Inside =
  | { readonly kind: "text"; readonly isKey: boolean; escape: "none" | "begun" | number }
  | { readonly kind: "word"; rest: string }
  | { readonly kind: "number"; state: NumberState };

/** Reads one JSON value character by character, as strictly as JSON.parse, and tells where in it the reading stands. */
export class JsonScanner {
  readonly #open: ("{" | "[")[] = [];
  #expects: Exclude<JsonExpects, "inside"> = "value";
  /** Whether what is expected may be left out: the first member of an object, the first item of a list. */
  #mayClose = false;
  #inside: Inside | null = null;

  get expects(): JsonExpects {
    return this.#inside === null ? this.#expects : "inside";
  }

  /** Objects and lists that are open. */
  get depth(): number {
    return this.#open.length;
  }

  /** False: the character cannot come here, or it goes 513 levels deep; the scanner is of no use any more. */
  feed(character: string): boolean {
    if (this.#inside === null) return this.#feedBetween(character);
    switch (this.#inside.kind) {
      case "text":
        return this.#feedText(this.#inside, character);
      case "word":
        return this.#feedWord(this.#inside, character);
      case "number":
        return this.#feedNumber(this.#inside, character);
    }
  }

  #feedBetween(character: string): boolean {
    if (isJsonSpace(character)) return true;
    if (character === "}" || character === "]") return this.#close(character);
    switch (this.#expects) {
      case "value":
        return this.#begin(character);
      case "key":
        this.#inside = { kind: "text", isKey: true, escape: "none" };
        return character === '"';
      case "colon":
        this.#expect("value");
        return character === ":";
      case "comma":
        this.#expect(this.#open.at(-1) === "{" ? "key" : "value");
        return character === ",";
      case "end":
        return false;
    }
  }

  #begin(character: string): boolean {
    if (character === "{" || character === "[") {
      this.#open.push(character);
      this.#expect(character === "{" ? "key" : "value", true);
      return this.#open.length <= depthMax;
    }
    const word = words[character];
    if (character === '"') this.#inside = { kind: "text", isKey: false, escape: "none" };
    else if (word !== undefined) this.#inside = { kind: "word", rest: word.slice(1) };
    else return this.#beginNumber(character);
    return true;
  }

  #beginNumber(character: string): boolean {
    const state = beginNumber(character);
    if (state !== null) this.#inside = { kind: "number", state };
    return state !== null;
  }

  #close(character: "}" | "]"): boolean {
    const mayClose = this.#expects === "comma" || this.#mayClose;
    const opened = this.#open.pop();
    this.#endValue();
    return mayClose && opened === (character === "}" ? "{" : "[");
  }

  #endValue(): void {
    this.#inside = null;
    this.#expect(this.#open.length === 0 ? "end" : "comma");
  }

  #expect(next: Exclude<JsonExpects, "inside">, mayClose = false): void {
    this.#expects = next;
    this.#mayClose = mayClose;
  }

  #feedText(text: Extract<Inside, { kind: "text" }>, character: string): boolean {
    if (text.escape === "begun") {
      text.escape = character === "u" ? 4 : "none";
      return '"\\/bfnrtu'.includes(character);
    }
    if (text.escape !== "none") {
      text.escape = text.escape === 1 ? "none" : text.escape - 1;
      return /[\da-fA-F]/.test(character);
    }
    if (character === "\\") text.escape = "begun";
    if (character === '"') this.#endText(text.isKey);
    return character >= " ";
  }

  #endText(isKey: boolean): void {
    this.#endValue();
    if (isKey) this.#expect("colon");
  }

  #feedWord(word: Extract<Inside, { kind: "word" }>, character: string): boolean {
    const isNext = word.rest.startsWith(character);
    word.rest = word.rest.slice(1);
    if (word.rest === "") this.#endValue();
    return isNext;
  }

  /** A number ends only with what comes behind it. */
  #feedNumber(open: Extract<Inside, { kind: "number" }>, character: string): boolean {
    const next = nextInNumber(open.state, character);
    if (next !== undefined) {
      open.state = next;
      return true;
    }
    if (!isCompleteNumber(open.state)) return false;
    this.#endValue();
    return this.#feedBetween(character);
  }
}

export function isJsonSpace(character: string): boolean {
  return character === " " || character === "\n" || character === "\r" || character === "\t";
}

/** Where in a JSON number the reading stands. */
export type NumberState = "minus" | "zero" | "whole" | "point" | "fraction" | "e" | "exponentSign" | "exponent";

type Kind = "zero" | "digit" | "point" | "e" | "sign";

const steps: Readonly<Record<NumberState, Partial<Record<Kind, NumberState>>>> = {
  minus: { zero: "zero", digit: "whole" },
  zero: { point: "point", e: "e" },
  whole: { zero: "whole", digit: "whole", point: "point", e: "e" },
  point: { zero: "fraction", digit: "fraction" },
  fraction: { zero: "fraction", digit: "fraction", e: "e" },
  e: { zero: "exponent", digit: "exponent", sign: "exponentSign" },
  exponentSign: { zero: "exponent", digit: "exponent" },
  exponent: { zero: "exponent", digit: "exponent" },
};

const complete: ReadonlySet<NumberState> = new Set(["zero", "whole", "fraction", "exponent"]);

/** Null: no number begins so. */
export function beginNumber(character: string): NumberState | null {
  return character === "-" ? "minus" : (nextInNumber("minus", character) ?? null);
}

/** Undefined: the character is no part of this number. */
export function nextInNumber(state: NumberState, character: string): NumberState | undefined {
  const kind = kindOf(character);
  return kind === null ? undefined : steps[state][kind];
}

export function isCompleteNumber(state: NumberState): boolean {
  return complete.has(state);
}

function kindOf(character: string): Kind | null {
  if (character === "0") return "zero";
  if (character >= "1" && character <= "9") return "digit";
  if (character === ".") return "point";
  if (character === "e" || character === "E") return "e";
  return character === "+" || character === "-" ? "sign" : null;
}
