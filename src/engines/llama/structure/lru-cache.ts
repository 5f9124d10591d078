const entriesMax = 64;
/** Of all keys together, in UTF-16 code units. What is made of one is bounded by itself: a grammar is 512 KiB at most. */
const charsMax = 1_000_000;

/**
 * Keeps what was made of the newest keys, because callers send the same schemas again and again, and making a grammar or
 * a check of one holds up all other answers. What is made must not change with use.
 */
export class RecentlyMade<T extends object | string> {
  readonly #kept = new Map<string, T>();
  #chars = 0;

  /** `key`: any JSON value. Errors of `make` are passed on and not kept. */
  get(key: unknown, make: () => T): T {
    const text = textOf(key);
    if (text === null || text.length > charsMax) return make();
    const made = this.#kept.get(text) ?? make();
    this.#forget(text);
    this.#kept.set(text, made);
    this.#chars += text.length;
    for (const [oldest] of this.#kept) {
      if (this.#kept.size <= entriesMax && this.#chars <= charsMax) break;
      this.#forget(oldest);
    }
    return made;
  }

  #forget(text: string): void {
    if (this.#kept.delete(text)) this.#chars -= text.length;
  }
}

/** Null for a value that is nested too deep to be written. */
function textOf(key: unknown): string | null {
  try {
    return JSON.stringify(key);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
