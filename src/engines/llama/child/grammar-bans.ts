import type { NativeVocabulary } from "./native-model.js";
import type { TokenSpelling } from "./token-spelling.js";

/**
 * What a grammar lets pass and an answer must not hold. The native grammars count code points: bytes that are no
 * well-formed UTF-8 can count as one and come out as several marks, and tokens without text count with their names. An
 * answer that is as long as its schema allows would then break it.
 */
export class GrammarBans {
  readonly #spelling: TokenSpelling;
  readonly #banned: ReadonlyMap<Utf8State, ReadonlySet<number>>;

  /** Reads the whole vocabulary. `isEnd`: whether a token ends an answer, which grammars allow at the end alone. */
  constructor(vocabulary: NativeVocabulary, spelling: TokenSpelling, isEnd: (token: number) => boolean) {
    const hidden = [...vocabulary.hidden].filter((token) => !isEnd(token));
    const banned = new Map<Utf8State, Set<number>>([["whole", new Set(hidden)]]);
    for (const state of utf8Insides) banned.set(state, new Set(hidden));
    for (const [token, spelled] of vocabulary.tokens.entries()) {
      if (vocabulary.hidden.has(token) || harmless.test(spelled)) continue;
      for (const state of statesAgainst(spelling.bytes(token))) banned.get(state)?.add(token);
    }
    this.#spelling = spelling;
    this.#banned = banned;
  }

  begin(): AnswerBans {
    return new AnswerBans(this.#spelling, this.#banned);
  }
}

/** The bans of one answer, which depend on what was said. */
export class AnswerBans {
  readonly #spelling: TokenSpelling;
  readonly #banned: ReadonlyMap<Utf8State, ReadonlySet<number>>;
  #state: Utf8State = "whole";

  constructor(spelling: TokenSpelling, banned: ReadonlyMap<Utf8State, ReadonlySet<number>>) {
    this.#spelling = spelling;
    this.#banned = banned;
  }

  /** The tokens that must not follow now; always the same set where the text stands the same. */
  get tokens(): ReadonlySet<number> {
    return this.#banned.get(this.#state) ?? none;
  }

  push(token: number): void {
    this.#state = utf8After(this.#state, this.#spelling.bytes(token) ?? []) ?? "whole";
  }
}

const none: ReadonlySet<number> = new Set();

/** Spellings of text in ASCII, as byte-level vocabularies and SentencePiece write it. */
const harmless = /^[\x20-\x3b=-\x7e\u0120\u2581]*$/;

/**
 * The states in which a token would spoil the text. Grammars see by themselves to it that a byte which goes on in a code
 * point comes inside of one, and nowhere else, so that sets stay small.
 */
function statesAgainst(bytes: readonly number[] | null): readonly Utf8State[] {
  const [first] = bytes ?? [];
  if (bytes === null || first === undefined) return [];
  const states: readonly Utf8State[] = first >= 0x80 && first <= 0xbf ? utf8Insides : ["whole"];
  return states.filter((state) => utf8After(state, bytes) === null);
}

/** Where a text of bytes stands: between two code points, or inside of one, by what may follow. */
export type Utf8State =
  | "whole"
  | "one-left"
  | "two-left"
  | "three-left"
  | "after-e0"
  | "after-ed"
  | "after-f0"
  | "after-f4";

/** The states inside of a code point. */
type Utf8Inside = Exclude<Utf8State, "whole">;

/** The bytes that may follow, first and last, and where they lead. Some leads narrow what follows them (RFC 3629). */
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

/** Where more bytes lead; null: with them, the text would not be well-formed, whatever came next. */
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

function afterLead(byte: number): Utf8State | null {
  if (byte < 0x80) return "whole";
  if (byte < 0xc2 || byte > 0xf4) return null;
  if (byte < 0xe0) return "one-left";
  switch (byte) {
    case 0xe0:
      return "after-e0";
    case 0xed:
      return "after-ed";
    case 0xf0:
      return "after-f0";
    case 0xf4:
      return "after-f4";
    default:
      return byte < 0xf0 ? "two-left" : "three-left";
  }
}
