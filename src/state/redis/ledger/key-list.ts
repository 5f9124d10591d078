/** The keys of one script call, each of them once; items name them by their place, as Lua counts: from 1. */
export class KeyList {
  readonly #names: string[];
  readonly #places = new Map<string, number>();

  /** `fixed` are the keys whose places the script knows. */
  constructor(fixed: readonly string[]) {
    this.#names = [...fixed];
  }

  get names(): readonly string[] {
    return this.#names;
  }

  placeOf(name: string): number {
    const known = this.#places.get(name);
    if (known !== undefined) return known;
    const place = this.#names.push(name);
    this.#places.set(name, place);
    return place;
  }
}
