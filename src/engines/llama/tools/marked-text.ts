export interface UpToMarker {
  readonly before: string;
  /** The white space that goes with the marker, and what follows it; null: it has not come. */
  readonly marker: { readonly space: string; readonly after: string } | null;
}

/**
 * Text up to a marker. Held back is what could be the beginning of the marker, with the white space before it, which goes
 * with the marker if that comes.
 */
export class MarkedText {
  /** Characters of white space at most that go with a marker. */
  static readonly spaceMax = 256;
  readonly #marker: string;
  #held = "";

  constructor(marker: string) {
    this.#marker = marker;
  }

  push(text: string): UpToMarker {
    const open = this.#held + text;
    const at = open.indexOf(this.#marker);
    const certain = at === -1 ? open.length - this.#openingLength(open) : at;
    const before = open.slice(0, certain - spaceLengthBefore(open, certain));
    this.#held = at === -1 ? open.slice(before.length) : "";
    if (at === -1) return { before, marker: null };
    return { before, marker: { space: open.slice(before.length, at), after: open.slice(at + this.#marker.length) } };
  }

  /** What was held back and has no marker behind it. */
  flush(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }

  /** Length of the longest end of the text with which the marker begins. */
  #openingLength(text: string): number {
    let length = Math.min(this.#marker.length - 1, text.length);
    while (!this.#marker.startsWith(text.slice(text.length - length))) length--;
    return length;
  }
}

function spaceLengthBefore(text: string, end: number): number {
  const tail = text.slice(Math.max(0, end - MarkedText.spaceMax), end);
  return tail.length - tail.trimEnd().length;
}
