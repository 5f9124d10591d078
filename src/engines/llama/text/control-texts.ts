interface Node {
  readonly next: Map<number, Node>;
  /** Whether a text ends here. */
  ends: boolean;
}

/** The texts of a vocabulary's control tokens, to be found in other text in time linear in that text. */
export class ControlTexts {
  /** UTF-16 length of the longest one. */
  readonly longest: number;
  readonly #root: Node = { next: new Map(), ends: false };

  constructor(texts: readonly string[]) {
    this.longest = texts.reduce((longest, { length }) => Math.max(longest, length), 0);
    for (const text of texts) if (text !== "") this.#add(text);
  }

  /** UTF-16 length of the longest control text that starts at `at`; 0: none does. */
  lengthAt(text: string, at: number): number {
    let node = this.#root.next.get(text.charCodeAt(at));
    let length = 0;
    for (let end = at + 1; node !== undefined; end++) {
      if (node.ends) length = end - at;
      node = node.next.get(text.charCodeAt(end));
    }
    return length;
  }

  /** Where control texts start, overlapping ones too; in order. */
  startsIn(text: string): readonly number[] {
    const starts: number[] = [];
    for (let at = 0; at < text.length; at++) if (this.lengthAt(text, at) > 0) starts.push(at);
    return starts;
  }

  #add(text: string): void {
    let node = this.#root;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      const next = node.next.get(code) ?? { next: new Map(), ends: false };
      node.next.set(code, next);
      node = next;
    }
    node.ends = true;
  }
}

const known = new WeakMap<readonly string[], ControlTexts>();

/** Built once for each list, because vocabularies have thousands and every prompt asks. */
export function controlTextsOf(texts: readonly string[]): ControlTexts {
  const found = known.get(texts) ?? new ControlTexts(texts);
  known.set(texts, found);
  return found;
}
