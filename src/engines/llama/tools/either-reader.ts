import type { OutputEnd, OutputPart, OutputReader } from "./output-reader.js";

/** Decides by the first character that is no white space which of two readers reads the answer. */
export class EitherReader implements OutputReader {
  readonly #mark: string;
  readonly #marked: OutputReader;
  readonly #other: OutputReader;
  #chosen: OutputReader | null = null;

  /** `mark`: one character, with which answers for the reader `marked` begin. */
  constructor(mark: string, marked: OutputReader, other: OutputReader) {
    this.#mark = mark;
    this.#marked = marked;
    this.#other = other;
  }

  get done(): boolean {
    return this.#chosen?.done ?? false;
  }

  push(text: string): readonly OutputPart[] {
    if (this.#chosen !== null) return this.#chosen.push(text);
    const start = text.trimStart();
    if (start === "") return [];
    this.#chosen = start.startsWith(this.#mark) ? this.#marked : this.#other;
    return this.#chosen.push(start);
  }

  end(cut: boolean): OutputEnd {
    return (this.#chosen ?? this.#other).end(cut);
  }
}
