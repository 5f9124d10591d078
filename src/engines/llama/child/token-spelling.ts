import type { NativeVocabulary } from "./native-model.js";

/** A token as log probabilities show it. */
export interface SpelledToken {
  /** Text of the token; for bytes that are not valid text, `bytes:` followed by each byte as `\xNN`. */
  readonly token: string;
  /** Bytes of the token, if they differ from those of `token`. */
  readonly bytes?: readonly number[];
}

/** Spells single tokens. The binding returns U+FFFD for a token that ends inside of a character, not its bytes. */
export class TokenSpelling {
  readonly #vocabulary: NativeVocabulary;
  readonly #detokenize: (token: number) => string;

  constructor(vocabulary: NativeVocabulary, detokenize: (token: number) => string) {
    this.#vocabulary = vocabulary;
    this.#detokenize = detokenize;
  }

  /** Bytes of the longest text of one token. */
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
    // U+FFFD may also be the token's own text; the bytes are then correct as well.
    if (!text.includes("\ufffd")) return { token: text };
    const escaped = bytes.map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`);
    return { token: `bytes:${escaped.join("")}`, bytes };
  }

  /** The bytes of a token; null if the spelling of the vocabulary is unknown. */
  bytes(token: number): readonly number[] | null {
    const spelled = this.#vocabulary.tokens[token];
    if (spelled === undefined) return null;
    if (this.#vocabulary.family === "gpt2") return bytesOfLetters(spelled);
    if (this.#vocabulary.family === "llama") return bytesOfPiece(spelled);
    return null;
  }
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** GPT-2 writes each byte as one printable letter: itself if it is printable, else the next one from U+0100 on. */
const byteOfLetter = ((): ReadonlyMap<string, number> => {
  const isPrintable = (byte: number): boolean =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  let next = 0x100;
  const letters = Array.from({ length: 256 }, (_, byte) => (isPrintable(byte) ? byte : next++));
  return new Map(letters.map((letter, byte) => [String.fromCodePoint(letter), byte]));
})();

/** The bytes of a GPT-2 spelling. Tokens that were added to the vocabulary by hand are spelled as plain text. */
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

/** The bans of one answer, which depend on its text so far. */
export interface AnswerBans {
  /** Tokens that must not follow the current text. The same UTF-8 state always gives the same set object. */
  readonly tokens: ReadonlySet<number>;
  push(token: number): void;
}

/**
 * Finds the tokens that a grammar accepts but an answer must not have, and returns the function that begins an answer.
 * Native grammars count code points: they count ill-formed UTF-8 as one, though it is decoded to several U+FFFD, and they
 * count the names of tokens without text. An answer could then exceed its schema's maximum length. Reads the whole
 * vocabulary. `isEnd`: whether a token ends an answer, which grammars accept only at the end.
 */
export function createGrammarBans(
  vocabulary: NativeVocabulary,
  spelling: TokenSpelling,
  isEnd: (token: number) => boolean,
): () => AnswerBans {
  const hidden = [...vocabulary.hidden].filter((token) => !isEnd(token));
  const banned = new Map<Utf8State, Set<number>>([["whole", new Set(hidden)]]);
  for (const state of utf8Insides) banned.set(state, new Set(hidden));
  for (const [token, spelled] of vocabulary.tokens.entries()) {
    if (vocabulary.hidden.has(token) || harmless.test(spelled)) continue;
    for (const state of statesAgainst(spelling.bytes(token))) banned.get(state)?.add(token);
  }
  return () => {
    let state: Utf8State = "whole";
    return {
      get tokens() {
        return banned.get(state) ?? none;
      },
      push(token) {
        state = utf8After(state, spelling.bytes(token) ?? []) ?? "whole";
      },
    };
  };
}

const none: ReadonlySet<number> = new Set();

/** Spellings of text in ASCII, as byte-level vocabularies and SentencePiece write it. */
const harmless = /^[\x20-\x3b=-\x7e\u0120\u2581]*$/;

/**
 * The states in which a token would make the text ill-formed. Grammars themselves accept a continuation byte only inside
 * of a code point, so the sets stay small.
 */
function statesAgainst(bytes: readonly number[] | null): readonly Utf8State[] {
  const [first] = bytes ?? [];
  if (bytes === null || first === undefined) return [];
  const states: readonly Utf8State[] = first >= 0x80 && first <= 0xbf ? utf8Insides : ["whole"];
  return states.filter((state) => utf8After(state, bytes) === null);
}

/** The end of a text of bytes: between two code points, or inside of one, by the bytes that may follow. */
export type Utf8State = "whole" | Utf8Inside;

/** The states inside of a code point. */
type Utf8Inside = "one-left" | "two-left" | "three-left" | "after-e0" | "after-ed" | "after-f0" | "after-f4";

/** The bytes that may follow, first and last, and the next state. Some leads narrow the next byte (RFC 3629). */
const continuations: Readonly<Record<Utf8Inside, readonly [first: number, last: number, next: Utf8State]>> = {
  "one-left": [0x80, 0xbf, "whole"],
  "two-left": [0x80, 0xbf, "one-left"],
  "three-left": [0x80, 0xbf, "two-left"],
  "after-e0": [0xa0, 0xbf, "one-left"],
  "after-ed": [0x80, 0x9f, "one-left"],
  "after-f0": [0x90, 0xbf, "two-left"],
  "after-f4": [0x80, 0x8f, "two-left"],
};

export const utf8Insides = Object.keys(continuations) as readonly Utf8Inside[];

/** The state after more bytes; null: the text would be ill-formed whatever followed. */
export function utf8After(from: Utf8State, bytes: readonly number[]): Utf8State | null {
  let state = from;
  for (const byte of bytes) {
    const next = state === "whole" ? afterLead(byte) : afterContinuation(state, byte);
    if (next === null) return null;
    state = next;
  }
  return state;
}

function afterContinuation(state: Utf8Inside, byte: number): Utf8State | null {
  const [first, last, next] = continuations[state];
  return byte >= first && byte <= last ? next : null;
}

const narrowingLeads: Readonly<Record<number, Utf8Inside>> = {
  224: "after-e0",
  237: "after-ed",
  240: "after-f0",
  244: "after-f4",
};

function afterLead(byte: number): Utf8State | null {
  if (byte < 0x80) return "whole";
  if (byte < 0xc2 || byte > 0xf4) return null;
  if (byte < 0xe0) return "one-left";
  return narrowingLeads[byte] ?? (byte < 0xf0 ? "two-left" : "three-left");
}
