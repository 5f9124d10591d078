/** A part of an answer, whole code points each. The parts of one call are neighbours; `id` and `name` come first. */
export type OutputPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "reasoning"; readonly text: string }
  | {
      readonly type: "tool";
      readonly index: number;
      readonly id?: string;
      readonly name?: string;
      readonly argsDelta?: string;
    };

export interface OutputEnd {
  /** What was held back. */
  readonly parts: readonly OutputPart[];
  readonly reason: "stop" | "length" | "tool_calls";
  /** Why the result breaks its form or its schema; null: it does not, or it was cut and cannot be judged. */
  readonly fault: string | null;
}

/** Reads the generated text of one choice as it comes. How the text is split makes no difference to the sum of the parts. */
export interface OutputReader {
  /** Whether the answer is complete: generation may end, and `end` tells the reason. */
  readonly done: boolean;
  push(text: string): readonly OutputPart[];
  /** `cut`: the budget ended it, not the model. */
  end(cut: boolean): OutputEnd;
}

/** Parts with text, as a list that is empty where there is none. */
export function textParts(type: "text" | "reasoning", text: string): readonly OutputPart[] {
  return text === "" ? [] : [{ type, text }];
}
