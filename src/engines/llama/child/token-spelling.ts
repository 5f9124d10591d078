import type { NativeVocabulary } from "./native-model.js";

/** A token as log probabilities show it. */
export interface SpelledToken {
  /** Its text; of bytes that are no text by themselves `bytes:` and each of them as `\xNN`. */
  readonly token: string;
  /** Its bytes, where the text cannot tell them. */
  readonly bytes?: readonly number[];
}

/** Spells single tokens. What the binding gives for one that ends inside of a character is a mark, and not its bytes. */
export class TokenSpelling {
  readonly #vocabulary: NativeVocabulary;
  readonly #detokenize: (token: number) => string;

  constructor(vocabulary: NativeVocabulary, detokenize: (token: number) => string) {
    this.#vocabulary = vocabulary;
    this.#detokenize = detokenize;
  }

  /** Bytes of the longest text that one token stands for. */
  get longestBytes(): number {
    let longest = 1;
    for (const [token, spelled] of this.#vocabulary.tokens.entries()) {
      if (Buffer.byteLength(spelled) > longest) {
        longest = Math.max(longest, (this.bytes(token) ?? Buffer.from(spelled)).length);
      }
    }
    return longest;
  }

  spell(token: number): SpelledToken {
    const bytes = this.bytes(token);
    if (bytes === null) return { token: this.#detokenize(token) };
    const text = utf8.decode(Uint8Array.from(bytes));
    // A mark in the text may come from the token itself, and is then worth its three bytes.
    if (!text.includes("\ufffd")) return { token: text };
    const escaped = bytes.map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`);
    return { token: `bytes:${escaped.join("")}`, bytes };
  }

  /** Null where the vocabulary's spelling is not known here. */
  bytes(token: number): readonly number[] | null {
    const spelled = this.#vocabulary.tokens[token];
    if (spelled === undefined) return null;
    if (this.#vocabulary.family === "gpt2") return bytesOfLetters(spelled);
    if (this.#vocabulary.family === "llama") return bytesOfPiece(spelled);
    return null;
  }
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** GPT-2 writes each byte as one printable letter: itself where it is printable, else the next one from U+0100 on. */
const byteOfLetter = ((): ReadonlyMap<string, number> => {
  const isPrintable = (byte: number): boolean =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  let next = 0x100;
  const letters = Array.from({ length: 256 }, (_, byte) => (isPrintable(byte) ? byte : next++));
  return new Map(letters.map((letter, byte) => [String.fromCodePoint(letter), byte]));
})();

/** Tokens that were added by hand are written as plain text. */
function bytesOfLetters(spelled: string): readonly number[] {
  const bytes: number[] = [];
  for (const letter of spelled) {
    const byte = byteOfLetter.get(letter);
    if (byte === undefined) return [...Buffer.from(spelled)];
    bytes.push(byte);
  }
  return bytes;
}

/** SentencePiece writes a lone byte as `<0xNN>` and a space as U+2581. */
function bytesOfPiece(spelled: string): readonly number[] {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(spelled)?.[1];
  return byte === undefined ? [...Buffer.from(spelled.replaceAll("\u2581", " "))] : [Number.parseInt(byte, 16)];
}
