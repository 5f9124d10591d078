import { byteText } from "../../lib/display-text.js";
import type { ListedModel, ModelAccess, ServedModel } from "./models-access.js";

/** A model that is served, or kept, or both. */
type Listing =
  | { readonly id: string; readonly served: ServedModel; readonly kept: ListedModel | null }
  | { readonly id: string; readonly served: null; readonly kept: ListedModel };

/** By id: what the service serves, if one runs, and what is kept. */
export async function readListings(access: Pick<ModelAccess, "list" | "served">): Promise<readonly Listing[]> {
  const [served, kept] = await Promise.all([access.served(), access.list()]);
  const keptById = new Map(kept.map((model) => [model.id, model]));
  const servedIds = new Set(served.map(({ model }) => model.id));
  const listings: readonly Listing[] = [
    ...served.map((model) => ({ id: model.model.id, served: model, kept: keptById.get(model.model.id) ?? null })),
    ...kept.filter(({ id }) => !servedIds.has(id)).map((model) => ({ id: model.id, served: null, kept: model })),
  ];
  return [...listings].sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** Fields as `GET /v1/models` names them, null where it is not served; and those of its file, null where none is kept. */
export function toListingObject(listing: Listing) {
  const { bytes, sha256, source, license, added_at } = listing.kept === null ? noFile : toModelObject(listing.kept);
  return {
    ...catalogFields(listing),
    kind: kindOf(listing),
    bytes,
    sha256,
    source,
    license,
    added_at,
    loaded: isLoaded(listing),
  };
}

const noFile = { bytes: null, sha256: null, source: null, license: null, added_at: null };

function catalogFields({ id, served, kept }: Listing) {
  if (served === null) {
    return { id, object: "model", created: null, owned_by: null, context_length: kept.contextLength, capabilities: [] };
  }
  const { model } = served;
  return {
    id,
    object: "model",
    created: Number(model.created),
    owned_by: model.ownedBy,
    context_length: model.contextLength,
    capabilities: model.capabilities,
    ...(model.dimensions !== undefined && { dimensions: model.dimensions }),
    ...(model.toolCalling !== undefined && { tool_calling: model.toolCalling }),
  };
}

/** One line per model, its columns below each other, narrow enough for a terminal: the rest is what `inspect` says. */
export function listingLines(listings: readonly Listing[]): readonly string[] {
  const rows = listings.map((listing) => [
    listing.id,
    kindOf(listing) ?? "not known",
    `${contextLengthOf(listing)} tokens`,
    stateWords(listing),
    listing.kept === null ? "no file kept" : `${byteText(listing.kept.bytes)} kept`,
  ]);
  return alignColumns(rows);
}

/** Null: the model is not loaded yet, and nothing else says what it is. */
function kindOf({ served, kept }: Listing): ListedModel["kind"] | null {
  if (served === null) return kept.kind;
  const { capabilities } = served.model;
  if (kept !== null || capabilities.length === 0) return kept?.kind ?? null;
  return capabilities.every((capability) => capability === "embeddings") ? "embedding" : "chat";
}

function contextLengthOf({ served, kept }: Listing): number {
  return served === null ? kept.contextLength : served.model.contextLength;
}

function isLoaded({ served, kept }: Listing): boolean {
  return served === null ? kept.loaded : served.state === "ready";
}

function stateWords(listing: Listing): string {
  if (isLoaded(listing)) return "loaded";
  return listing.served?.state === "loading" ? "loading" : "not loaded";
}

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
