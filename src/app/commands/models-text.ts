import type { ListedModel } from "./models-access.js";

/** A kept model as JSON shows it. */
export function toModelObject(model: ListedModel) {
  return {
    id: model.id,
    kind: model.kind,
    bytes: model.bytes,
    sha256: model.sha256,
    source: model.source,
    context_length: model.contextLength,
    license: model.license,
    added_at: new Date(model.addedAtMs).toISOString(),
    loaded: model.loaded,
  };
}

/** The cells of each row as one line; each column as wide as its widest cell. */
export function alignColumns(rows: readonly (readonly string[])[]): readonly string[] {
  const widths: number[] = [];
  for (const row of rows) for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  return rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}
