/** A range of creations in µs, as bounds of a sorted set. Null: without end on that side. */
export function creationBounds(range: { readonly fromMs: number | null; readonly toMs: number | null }): {
  readonly least: string;
  readonly most: string;
} {
  return {
    least: range.fromMs === null ? "-inf" : String(range.fromMs * 1_000),
    most: range.toMs === null ? "+inf" : `(${range.toMs * 1_000}`,
  };
}
