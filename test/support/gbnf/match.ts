import type { Choice, Gbnf, Piece } from "./parse-gbnf.js";

/** Remaining pieces, shared between paths; null: the text may end here. */
type Rest = { readonly piece: Piece; readonly rest: Rest } | null;

export interface Match {
  readonly matches: boolean;
  /** Maximum number of open paths at one character, which an engine would have to follow. */
  readonly pathsMax: number;
}

/** Follows a text through a grammar on all paths simultaneously, as engines do. */
export class Matcher {
  readonly #grammar: Gbnf;
  readonly #rests = new Map<Piece, Map<Rest, Rest>>();
  readonly #repeats = new Map<Choice, Map<string, Piece>>();

  constructor(grammar: Gbnf) {
    this.#grammar = grammar;
  }

  match(text: string): Match {
    let paths = this.#opened([this.#push({ type: "rule", name: "root" }, null)]);
    let pathsMax = paths.size;
    for (const character of text) {
      const codePoint = character.codePointAt(0) ?? 0;
      const next: Rest[] = [];
      for (const path of paths) if (path !== null && allows(path.piece, codePoint)) next.push(path.rest);
      paths = this.#opened(next);
      pathsMax = Math.max(pathsMax, paths.size);
    }
    return { matches: paths.has(null), pathsMax };
  }

  /** Follows every path until it needs a character. */
  #opened(starts: readonly Rest[]): ReadonlySet<Rest> {
    const open = new Set<Rest>();
    const seen = new Set<Rest>();
    const todo = [...starts];
    for (let path = todo.pop(); path !== undefined; path = todo.pop()) {
      if (seen.has(path)) continue;
      seen.add(path);
      if (path === null || path.piece.type === "set") open.add(path);
      else todo.push(...this.#steps(path.piece, path.rest));
    }
    return open;
  }

  #steps(piece: Exclude<Piece, { type: "set" }>, rest: Rest): readonly Rest[] {
    if (piece.type === "rule") return this.#choose(this.#grammar.get(piece.name) ?? [], rest);
    const again = piece.max > 1 ? this.#push(this.#fewer(piece.choice, piece.min - 1, piece.max - 1), rest) : rest;
    const once = piece.max > 0 ? this.#choose(piece.choice, again) : [];
    return piece.min > 0 ? once : [...once, rest];
  }

  #choose(choice: Choice, rest: Rest): readonly Rest[] {
    return choice.map((sequence) => sequence.reduceRight<Rest>((after, piece) => this.#push(piece, after), rest));
  }

  #fewer(choice: Choice, min: number, max: number): Piece {
    const key = `${Math.max(0, min)} ${max}`;
    const known = this.#repeats.get(choice) ?? new Map<string, Piece>();
    this.#repeats.set(choice, known);
    const piece = known.get(key) ?? { type: "repeat", choice, min: Math.max(0, min), max };
    known.set(key, piece);
    return piece;
  }

  /** Returns the same object for the same pieces, so that equal paths count once. */
  #push(piece: Piece, rest: Rest): Rest {
    const known = this.#rests.get(piece) ?? new Map<Rest, Rest>();
    this.#rests.set(piece, known);
    const pushed = known.get(rest) ?? { piece, rest };
    known.set(rest, pushed);
    return pushed;
  }
}

function allows(piece: Piece, codePoint: number): boolean {
  return piece.type === "set" && piece.ranges.some(([first, last]) => first <= codePoint && codePoint <= last);
}
