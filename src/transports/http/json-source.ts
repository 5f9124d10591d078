/** Position of a value in the text: `[start, end)`. */
type Span = readonly [start: number, end: number];

const blank = /[ \t\n\r]*/y;
const scalar = /[^ \t\n\r,:[\]{}"]+/y;
const quoteOrBracket = /["[\]{}]/g;

/**
 * Finds the source text of single values in JSON: parsing and printing a schema again would change numbers beyond 2^53
 * and the order of keys. The text must be valid JSON.
 */
export class JsonSource {
  readonly #text: string;
  /** Members of objects and items of arrays, by where those begin. Each container is walked once. */
  #children: Map<number, ReadonlyMap<string, Span>> | null = null;

  constructor(text: string) {
    this.#text = text;
  }

  /**
   * The text of the value at a path such as `tools[1].function.parameters`; undefined when there is none. No key of the
   * path may hold a dot or a bracket. Of a repeated key the last one counts, as it does for JSON.parse.
   */
  textAt(path: string): string | undefined {
    let span: Span | undefined = [this.#skipBlank(0), this.#text.length];
    for (const key of path.split(/[.[\]]+/)) {
      if (key === "") continue;
      span = this.#childrenAt(span[0]).get(key);
      if (span === undefined) return undefined;
    }
    return this.#text.slice(...span);
  }

  #childrenAt(start: number): ReadonlyMap<string, Span> {
    // Created on demand: most bodies need no source text.
    this.#children ??= new Map();
    let children = this.#children.get(start);
    if (children === undefined) {
      children = this.#walk(start);
      this.#children.set(start, children);
    }
    return children;
  }

  #walk(start: number): Map<string, Span> {
    const children = new Map<string, Span>();
    const isObject = this.#text[start] === "{";
    if (!isObject && this.#text[start] !== "[") return children;
    let at = this.#skipBlank(start + 1);
    while (at < this.#text.length && this.#text[at] !== "}" && this.#text[at] !== "]") {
      let key = String(children.size);
      if (isObject) {
        const keyEnd = this.#endOf(at);
        key = JSON.parse(this.#text.slice(at, keyEnd));
        at = this.#skipBlank(this.#skipBlank(keyEnd) + 1);
      }
      const end = this.#endOf(at);
      children.set(key, [at, end]);
      at = this.#skipBlank(end);
      if (this.#text[at] === ",") at = this.#skipBlank(at + 1);
    }
    return children;
  }

  /** End of the value that begins at `at`. */
  #endOf(at: number): number {
    const first = this.#text[at];
    if (first === '"') return this.#endOfString(at);
    if (first === "{" || first === "[") return this.#endOfContainer(at);
    return matchEnd(scalar, this.#text, at);
  }

  #endOfContainer(at: number): number {
    let depth = 0;
    let next = at;
    do {
      quoteOrBracket.lastIndex = next;
      const found = quoteOrBracket.exec(this.#text);
      if (found === null) return this.#text.length;
      next = found.index + 1;
      if (found[0] === '"') next = this.#endOfString(found.index);
      else depth += found[0] === "{" || found[0] === "[" ? 1 : -1;
    } while (depth > 0);
    return next;
  }

  #endOfString(at: number): number {
    let end = this.#text.indexOf('"', at + 1);
    while (end !== -1 && this.#isEscaped(end, at)) end = this.#text.indexOf('"', end + 1);
    return end === -1 ? this.#text.length : end + 1;
  }

  #isEscaped(quote: number, start: number): boolean {
    let first = quote;
    while (first - 1 > start && this.#text[first - 1] === "\\") first -= 1;
    return (quote - first) % 2 === 1;
  }

  #skipBlank(at: number): number {
    return matchEnd(blank, this.#text, at);
  }
}

/** Where a match of a sticky pattern at `at` ends; `at` itself when there is none. */
function matchEnd(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at + 1;
}
