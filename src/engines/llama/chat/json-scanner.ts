/** Element that the next character belongs to; `inside`: an unfinished text, number or word. */
export type JsonExpects = "value" | "key" | "colon" | "comma" | "inside" | "end";

const depthMax = 512;
const words: Readonly<Record<string, string>> = { t: "true", f: "false", n: "null" };

type Inside =
  | { readonly kind: "text"; readonly isKey: boolean; escape: "none" | "begun" | number }
  | { readonly kind: "word"; rest: string }
  | { readonly kind: "number"; state: NumberState };

/** Reads one JSON value character by character, as strictly as JSON.parse, and reports the position in its structure. */
export class JsonScanner {
  readonly #open: ("{" | "[")[] = [];
  #expects: Exclude<JsonExpects, "inside"> = "value";
  /** Whether the object or list may end here: before its first member or item. */
  #mayClose = false;
  #inside: Inside | null = null;

  get expects(): JsonExpects {
    return this.#inside === null ? this.#expects : "inside";
  }

  /** Number of open objects and lists. */
  get depth(): number {
    return this.#open.length;
  }

  /** False: the character is invalid here, or opens level 513; the scanner must not be used any more. */
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
    const number = character === "-" ? "minus" : numberAfter("minus", character);
    if (character === '"') this.#inside = { kind: "text", isKey: false, escape: "none" };
    else if (word !== undefined) this.#inside = { kind: "word", rest: word.slice(1) };
    else if (number !== undefined) this.#inside = { kind: "number", state: number };
    else return false;
    return true;
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
    if (character === '"') {
      this.#endValue();
      if (text.isKey) this.#expect("colon");
    }
    return character >= " ";
  }

  #feedWord(word: Extract<Inside, { kind: "word" }>, character: string): boolean {
    const isNext = word.rest.startsWith(character);
    word.rest = word.rest.slice(1);
    if (word.rest === "") this.#endValue();
    return isNext;
  }

  /** A number ends only with the character after it. */
  #feedNumber(open: Extract<Inside, { kind: "number" }>, character: string): boolean {
    const next = numberAfter(open.state, character);
    if (next !== undefined) {
      open.state = next;
      return true;
    }
    if (!complete.has(open.state)) return false;
    this.#endValue();
    return this.#feedBetween(character);
  }
}

export function isJsonSpace(character: string): boolean {
  return character === " " || character === "\n" || character === "\r" || character === "\t";
}

/** Last element read of a JSON number. */
type NumberState = "minus" | "zero" | "whole" | "point" | "fraction" | "e" | "exponentSign" | "exponent";

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

/** Undefined if the character does not belong to this number. */
function numberAfter(state: NumberState, character: string): NumberState | undefined {
  const kind = kindOf(character);
  return kind === null ? undefined : steps[state][kind];
}

function kindOf(character: string): Kind | null {
  if (character === "0") return "zero";
  if (character >= "1" && character <= "9") return "digit";
  if (character === ".") return "point";
  if (character === "e" || character === "E") return "e";
  return character === "+" || character === "-" ? "sign" : null;
}
