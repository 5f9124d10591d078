/**
 * Byte-level BPE vocabularies as GPT-2 has them: all 256 bytes, and words that are merged from them left to right. Every
 * text can be encoded; a text made of the words has one token per word.
 */
export interface Vocabulary {
  /** Ordinary tokens first, then the control tokens. */
  readonly tokens: readonly string[];
  /** llama.cpp's kinds: 1 ordinary, 3 control. */
  readonly kinds: readonly number[];
  readonly merges: readonly string[];
  readonly controls: { readonly endOfText: number; readonly start: number; readonly end: number };
  /** Token of a word of the vocabulary or of a control text. Throws for other text. */
  id(word: string): number;
}

const controlTexts = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const ordinary = 1;
const control = 3;

/** Creates a vocabulary. `moreControls`: texts of control tokens in addition to those of ChatML. */
export function byteVocabulary(words: Iterable<string>, moreControls: readonly string[] = []): Vocabulary {
  const controls = [...controlTexts, ...moreControls];
  const tokens = [...byteLetters];
  const ids = new Map(tokens.map((letter, id) => [letter, id]));
  const merges: string[] = [];
  for (const word of words) {
    const [first = "", ...rest] = lettersOf(word);
    let merged = first;
    for (const letter of rest) {
      const longer = merged + letter;
      if (!ids.has(longer)) {
        ids.set(longer, tokens.length);
        tokens.push(longer);
        merges.push(`${merged} ${letter}`);
      }
      merged = longer;
    }
  }
  const plain = tokens.length;
  return {
    tokens: [...tokens, ...controls],
    kinds: [...tokens.map(() => ordinary), ...controls.map(() => control)],
    merges,
    controls: { endOfText: plain, start: plain + 1, end: plain + 2 },
    id(word) {
      const place = controls.indexOf(word);
      const id = place === -1 ? ids.get(lettersOf(word).join("")) : plain + place;
      if (id === undefined) throw new Error(`the vocabulary has no token for ${JSON.stringify(word)}`);
      return id;
    },
  };
}

/** Each byte as one printable letter: itself if it is printable, else a letter from U+0100 on. */
const byteLetters = (() => {
  const isPrintable = (byte: number): boolean =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isPrintable(byte) ? byte : next++));
})();

function lettersOf(word: string): string[] {
  return [...Buffer.from(word)].map((byte) => byteLetters[byte] ?? "");
}
