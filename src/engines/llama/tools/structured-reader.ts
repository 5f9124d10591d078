import { type OutputEnd, type OutputPart, type OutputReader, textParts } from "./output-reader.js";

/** The text of one JSON value, which is checked when it is complete. */
export class StructuredReader implements OutputReader {
  readonly done = false;
  readonly #check: (value: unknown) => string | null;
  #text = "";

  /** `check` says what is wrong with a value, or null. */
  constructor(check: (value: unknown) => string | null) {
    this.#check = check;
  }

  push(text: string): readonly OutputPart[] {
    this.#text += text;
    return textParts("text", text);
  }

  end(cut: boolean): OutputEnd {
    return cut ? { parts: [], reason: "length", fault: null } : { parts: [], reason: "stop", fault: this.#fault() };
  }

  #fault(): string | null {
    let value: unknown;
    try {
      value = JSON.parse(this.#text);
    } catch (thrown) {
      return `the answer is no JSON: ${thrown instanceof Error ? thrown.message : "unknown"}`;
    }
    return this.#check(value);
  }
}
