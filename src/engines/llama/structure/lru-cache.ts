const entriesMax = 64;
/** Length of all keys together, in UTF-16 code units. Values have bounds of their own: a grammar has 512 KiB at most. */
const charsMax = 1_000_000;

/**
 * Cache of values computed from JSON keys; the least recently used are evicted. Clients send the same schemas again and
 * again, and compiling one delays all other answers. Values must not change with use.
 */
export class LruCache<T extends object | string> {
  readonly #kept = new Map<string, T>();
  #chars = 0;

  /** `key`: any JSON value. Errors of `make` are thrown and not cached. */
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
