import type { Choice, Gbnf, Piece } from "./parse-gbnf.js";

/** A whole number from 0 to below `count`. */
export type Pick = (count: number) => number;

/**
 * A random text of the grammar, as a model could generate it. Deeper than `depthSoft` rules it chooses the
 * alternatives that end soonest.
 */
export function derive(grammar: Gbnf, pick: Pick, depthSoft = 60): string {
  const heights = heightsOf(grammar);
  const ofChoice = (choice: Choice, depth: number): string => {
    const allowed = depth < depthSoft ? choice : lowest(choice, heights);
    return (allowed[pick(allowed.length)] ?? []).map((piece) => ofPiece(piece, depth)).join("");
  };
  const ofPiece = (piece: Piece, depth: number): string => {
    if (piece.type === "set") return characterOf(piece.ranges, pick);
    if (piece.type === "rule") return ofChoice(grammar.get(piece.name) ?? [], depth + 1);
    const spread = Math.min(piece.max, piece.min + 6) - piece.min;
    const more = depth < depthSoft ? oneOf([0, pick(spread + 1), Math.min(1, spread)], pick) : 0;
    // A quarter of the repetitions have the maximum count, because bounds fail at their ends.
    const full = depth < depthSoft && piece.max < 300 && pick(4) === 0;
    const count = full ? piece.max : piece.min + more;
    return Array.from({ length: count }, () => ofChoice(piece.choice, depth)).join("");
  };
  return ofChoice(grammar.get("root") ?? [], 0);
}

function characterOf(ranges: readonly (readonly [number, number])[], pick: Pick): string {
  const [first, last] = oneOf(ranges, pick);
  const codePoint = oneOf([first, last, first + pick(last - first + 1)], pick);
  return String.fromCodePoint(codePoint);
}

function oneOf<Item>(items: readonly Item[], pick: Pick): Item {
  const item = items[pick(items.length)];
  if (item === undefined) throw new Error("nothing to pick from");
  return item;
}

/** The smallest nesting depth of each rule's texts; rules that never end are absent. */
function heightsOf(grammar: Gbnf): ReadonlyMap<string, number> {
  const heights = new Map<string, number>();
  for (let changed = true; changed; ) {
    changed = false;
    for (const [name, choice] of grammar) {
      const height = 1 + Math.min(...choice.map((sequence) => heightOf(sequence, heights)));
      if (height < (heights.get(name) ?? Number.POSITIVE_INFINITY)) {
        heights.set(name, height);
        changed = true;
      }
    }
  }
  return heights;
}

function heightOf(sequence: readonly Piece[], heights: ReadonlyMap<string, number>): number {
  return Math.max(
    0,
    ...sequence.map((piece) => {
      if (piece.type === "set") return 0;
      if (piece.type === "rule") return heights.get(piece.name) ?? Number.POSITIVE_INFINITY;
      return piece.min === 0 ? 0 : Math.min(...piece.choice.map((inner) => heightOf(inner, heights)));
    }),
  );
}

function lowest(choice: Choice, heights: ReadonlyMap<string, number>): Choice {
  const height = Math.min(...choice.map((sequence) => heightOf(sequence, heights)));
  return choice.filter((sequence) => heightOf(sequence, heights) === height);
}
