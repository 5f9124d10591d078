import { printable } from "../lib/printable.js";

const shownBytesMax = 2_048;

/** The beginning of an answer's body. */
export class AnswerExcerpt {
  readonly #chunks: Buffer[] = [];
  #keptBytes = 0;
  #bytes = 0;

  /** Bytes of the body so far, kept or not. */
  get bytes(): number {
    return this.#bytes;
  }

  add(chunk: Buffer): void {
    this.#bytes += chunk.length;
    const missing = shownBytesMax - this.#keptBytes;
    if (missing <= 0) return;
    // A copy: a part of what was read would hold on to all of it.
    const kept = chunk.length > missing ? Buffer.from(chunk.subarray(0, missing)) : chunk;
    this.#chunks.push(kept);
    this.#keptBytes += kept.length;
  }

  /** The first 2 KiB as UTF-8 text that no terminal obeys, of 2 KiB at most, too. A character that was cut is left out. */
  text(): string {
    if (this.#bytes === 0) return "";
    const text = printable(new TextDecoder().decode(Buffer.concat(this.#chunks), { stream: true }));
    // What is no UTF-8 has become longer.
    const { read } = new TextEncoder().encodeInto(text, new Uint8Array(shownBytesMax));
    return text.slice(0, read);
  }
}
