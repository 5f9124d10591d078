import type { ControlTexts } from "../chat/control-marks.js";
import type { NativeModel, TokenizeOptions } from "./native-model.js";

/** Characters that are tokenized in one pass of the event loop, of all calls together: some milliseconds at most. */
const passChars = 8_192;
/** Where a slice may end is searched in this many characters before its greatest length. */
const searchChars = 1_024;
/** Places at which vocabularies end a token in any case: before the space of a word, or before punctuation. */
const cutPatterns = [/(?<=[\p{L}\p{N}.,;:!?)]) (?=\p{L})/gu, /(?<=[\p{L}\p{N}])["/_.:;,!?)\]}>=\n。，、！？；：]/gu];

/**
 * Tokenizes text in slices, so that decoding and heartbeats go on between them: the native tokenizer is synchronous.
 * Calls that tokenize at the same time take their slices in turn.
 */
export class SlicedTokenizer {
  readonly #model: Pick<NativeModel, "tokenize">;
  readonly #controlTexts: ControlTexts;
  readonly #waiting: { readonly chars: number; readonly start: () => void }[] = [];
  #charsOfPass = 0;
  #isScheduled = false;

  constructor(model: Pick<NativeModel, "tokenize">, controlTexts: ControlTexts) {
    this.#model = model;
    this.#controlTexts = controlTexts;
  }

  /** `check` is called before each slice and may throw. */
  async tokenize(text: string, options: TokenizeOptions, check: () => void): Promise<number[]> {
    const tokens: number[] = [];
    let continued = options.continued ?? false;
    for (const slice of this.#slices(text)) {
      if (this.#mustWait(slice.length)) await this.#nextPass(slice.length);
      check();
      for (const token of this.#model.tokenize(slice, { ...options, continued })) tokens.push(token);
      continued = true;
    }
    return tokens;
  }

  #mustWait(chars: number): boolean {
    this.#schedule();
    if (this.#waiting.length > 0 || this.#charsOfPass + chars > passChars) return true;
    this.#charsOfPass += chars;
    return false;
  }

  #nextPass(chars: number): Promise<void> {
    return new Promise((start) => {
      this.#waiting.push({ chars, start });
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#begin());
  }

  /** Begins a pass of the event loop, with at least one of those that wait. */
  #begin(): void {
    this.#isScheduled = false;
    this.#charsOfPass = 0;
    if (this.#waiting.length > 0) this.#schedule();
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      if (this.#charsOfPass > 0 && this.#charsOfPass + next.chars > passChars) return;
      this.#charsOfPass += next.chars;
      this.#waiting.shift();
      next.start();
    }
  }

  *#slices(text: string): Generator<string, void, undefined> {
    let from = 0;
    while (text.length - from > passChars) {
      const to = this.#cutBefore(text, from + passChars);
      yield text.slice(from, to);
      from = to;
    }
    if (from < text.length) yield text.slice(from);
  }

  /** A run of text without any of the usual places is cut where it is, but not inside of a character or control text. */
  #cutBefore(text: string, limit: number): number {
    const first = limit - searchChars;
    const window = text.slice(first, limit + 1);
    for (const pattern of cutPatterns) {
      const places = [...window.matchAll(pattern)].map(({ index }) => first + index).reverse();
      const place = places.find((at) => at > first && !this.#isInControlText(text, at));
      if (place !== undefined) return place;
    }
    for (let at = limit; at > first; at--) {
      const splitsCharacter = (text.codePointAt(at - 1) ?? 0) > 0xffff;
      if (!splitsCharacter && !this.#isInControlText(text, at)) return at;
    }
    return limit;
  }

  #isInControlText(text: string, at: number): boolean {
    for (let start = Math.max(0, at - this.#controlTexts.longest + 1); start < at; start++) {
      if (start + this.#controlTexts.lengthAt(text, start) > at) return true;
    }
    return false;
  }
}
