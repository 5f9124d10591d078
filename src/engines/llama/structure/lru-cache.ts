const entriesMax = 64;
/** Maximum length of all keys together, in UTF-16 code units. Values have their own bounds: a grammar has 512 KiB at most. */
const charsMax = 1_000_000;

/**
 * Cache of values computed from JSON keys; the least recently used are evicted. Clients repeat the same schemas, and
 * compiling one delays all other answers. Values must not change with use.
 */
export class LruCache<T extends object | string> {
  readonly #entries = new Map<string, T>();
  #chars = 0;

  /** `key`: any JSON value. Errors of `make` are thrown and not cached. */
  get(key: unknown, make: () => T): T {
    const text = textOf(key);
    if (text === null || text.length > charsMax) return make();
    const value = this.#entries.get(text) ?? make();
    this.#delete(text);
    this.#entries.set(text, value);
    this.#chars += text.length;
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= entriesMax && this.#chars <= charsMax) break;
      this.#delete(oldest);
    }
    return value;
  }

  #delete(text: string): void {
    if (this.#entries.delete(text)) this.#chars -= text.length;
  }
}

/** The JSON text of a key; null for a value that is nested too deep for JSON.stringify. */
function textOf(key: unknown): string | null {
  try {
    return JSON.stringify(key);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
