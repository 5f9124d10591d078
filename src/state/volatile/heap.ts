/** Takes out the smallest first. `isBefore` is a strict order. */
export class Heap<T> {
  #items: T[] = [];
  readonly #isBefore: (a: T, b: T) => boolean;

  constructor(isBefore: (a: T, b: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get size(): number {
    return this.#items.length;
  }

  peek(): T | undefined {
    return this.#items[0];
  }

  push(item: T): void {
    const items = this.#items;
    let place = items.length;
    while (place > 0) {
      const above = (place - 1) >> 1;
      const parent = items[above];
      if (parent === undefined || !this.#isBefore(item, parent)) break;
      items[place] = parent;
      place = above;
    }
    items[place] = item;
  }

  pop(): T | undefined {
    const items = this.#items;
    const smallest = items[0];
    const last = items.pop();
    if (last !== undefined && items.length > 0) this.#sink(last);
    return smallest;
  }

  /** Forgets those that do not pass. */
  retain(passes: (item: T) => boolean): void {
    const kept = this.#items.filter(passes);
    this.#items = [];
    for (const item of kept) this.push(item);
  }

  *[Symbol.iterator](): Iterator<T> {
    yield* this.#items;
  }

  /** Puts the item on top and lets it sink to its place. */
  #sink(item: T): void {
    const items = this.#items;
    let place = 0;
    for (;;) {
      const left = 2 * place + 1;
      const right = left + 1;
      const [leftItem, rightItem] = [items[left], items[right]];
      if (leftItem === undefined) break;
      const isRight = rightItem !== undefined && this.#isBefore(rightItem, leftItem);
      const child = isRight ? rightItem : leftItem;
      if (!this.#isBefore(child, item)) break;
      items[place] = child;
      place = isRight ? right : left;
    }
    items[place] = item;
  }
}
