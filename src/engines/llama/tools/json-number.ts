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
