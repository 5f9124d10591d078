import { byteText } from "../../lib/byte-text.js";
import { printableLine } from "../../lib/printable.js";
import type { ListedModel } from "./models-access.js";

/** A model as every JSON answer shows it. */
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

/** One line per model, its columns below each other. */
export function modelLines(models: readonly ListedModel[]): readonly string[] {
  const rows = models.map((model) => [
    model.id,
    model.kind,
    byteText(model.bytes),
    `${model.contextLength} tokens`,
    model.loaded ? "loaded" : "not loaded",
    printableLine(model.license ?? "licence not stated"),
    printableLine(model.source),
  ]);
  return alignColumns(rows);
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
