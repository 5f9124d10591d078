/** A map that never holds more than `sizeMax` entries: the entry that was read or written longest ago makes room. */
export class BoundedMap<K, V> {
  readonly #entries = new Map<K, V>();
  readonly #sizeMax: number;

  constructor(sizeMax: number) {
    if (!Number.isInteger(sizeMax) || sizeMax < 1) throw new RangeError(`sizeMax must be 1 or more, not ${sizeMax}`);
    this.#sizeMax = sizeMax;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The value, which then is the last to make room. */
  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value !== undefined) {
      this.#entries.delete(key);
      this.#entries.set(key, value);
    }
    return value;
  }

  has(key: K): boolean {
    return this.#entries.has(key);
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#sizeMax) return;
    for (const oldest of this.#entries.keys()) {
      this.#entries.delete(oldest);
      return;
    }
  }

  delete(key: K): boolean {
    return this.#entries.delete(key);
  }

  /** All entries, the next one to make room first. Entries may be deleted while iterating. */
  entries(): IterableIterator<[K, V]> {
    return this.#entries.entries();
  }
}
