/**
 * Ends a text at the first of several stop strings, however the text is split (CHAT-8). Text that could begin a stop string
 * is held back. The match that is complete first ends the text; if several are complete at the same character, the one that
 * began first. One Knuth-Morris-Pratt automaton per string gives constant cost per character.
 */
export class StopSequences {
  readonly #matchers: readonly Matcher[];
  #held = "";
  /** The stop string that ended the text; null: none so far. */
  found: string | null = null;

  /** `stops` are non-empty and without lone surrogates. */
  constructor(stops: readonly string[]) {
    this.#matchers = stops.map((stop) => new Matcher(stop));
  }

  /** Takes the next piece and returns the text to `emit`. After a match everything is dropped. */
  push(text: string): { readonly emit: string; readonly stopped: boolean } {
    if (this.found !== null) return { emit: "", stopped: true };
    const known = this.#held + text;
    for (let i = 0; i < text.length; i++) {
      const matched = this.#step(text.charCodeAt(i));
      if (matched === 0) continue;
      const end = this.#held.length + i + 1;
      this.found = known.slice(end - matched, end);
      this.#held = "";
      return { emit: known.slice(0, end - matched), stopped: true };
    }
    const open = Math.max(0, ...this.#matchers.map((matcher) => matcher.open));
    const cut = known.length - open;
    this.#held = known.slice(cut);
    return { emit: known.slice(0, cut), stopped: false };
  }

  /** Returns the held-back text when the text ends without a match. */
  flush(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }

  /** Length of the longest stop string that is complete with this code unit; 0: none. */
  #step(code: number): number {
    let matched = 0;
    for (const matcher of this.#matchers) {
      if (matcher.step(code) && matcher.length > matched) matched = matcher.length;
    }
    return matched;
  }
}

/** Finds one string in a stream of UTF-16 code units. */
class Matcher {
  readonly #stop: string;
  /** For every prefix: length of the longest proper prefix of it that is also its suffix. */
  readonly #fallback: readonly number[];
  /** Number of trailing code units that could begin the string. */
  open = 0;

  constructor(stop: string) {
    this.#stop = stop;
    this.#fallback = fallbackOf(stop);
  }

  get length(): number {
    return this.#stop.length;
  }

  /** Takes a code unit; true when the string is complete. */
  step(code: number): boolean {
    this.open = advance(this.#stop, this.#fallback, this.open, code);
    return this.open === this.#stop.length;
  }
}

function advance(stop: string, fallback: readonly number[], open: number, code: number): number {
  let matched = open;
  while (matched > 0 && stop.charCodeAt(matched) !== code) matched = fallback[matched - 1] ?? 0;
  return stop.charCodeAt(matched) === code ? matched + 1 : 0;
}

function fallbackOf(stop: string): readonly number[] {
  const fallback = [0];
  for (let i = 1; i < stop.length; i++) {
    fallback.push(advance(stop, fallback, fallback[i - 1] ?? 0, stop.charCodeAt(i)));
  }
  return fallback;
}
