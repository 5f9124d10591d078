import type { SqliteDatabase } from "./sqlite-binding.js";

/** When each model was first seen: the verb of CatalogStore, synchronous, one step. */
export function createCatalogRows(db: SqliteDatabase) {
  const note = db.prepare("INSERT INTO models_seen (id, first_seen_at_ms) VALUES (?, ?) ON CONFLICT (id) DO NOTHING");
  const find = db.prepare("SELECT first_seen_at_ms FROM models_seen WHERE id = ?");
  return {
    firstSeen(ids: readonly string[], nowMs: number): readonly number[] {
      return ids.map((id) => {
        note.run(id, nowMs);
        return Number(find.get(id)?.["first_seen_at_ms"] ?? nowMs);
      });
    },
  };
}
