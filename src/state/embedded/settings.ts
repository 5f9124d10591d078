import type { KeptSetting, SettingName } from "../../domain/access/administrator.js";
import { integer, type SqliteDatabase, text } from "./database/sqlite.js";

/** What the service keeps for itself: the verbs of SettingsStore, synchronous, each one step. */
export function createSettingRows(db: SqliteDatabase) {
  const get = db.prepare("SELECT value, version FROM settings WHERE name = ?");
  const insert = db.prepare("INSERT INTO settings (name, value, version) VALUES (?, ?, 1) ON CONFLICT DO NOTHING");
  const update = db.prepare("UPDATE settings SET value = ?, version = version + 1 WHERE name = ? AND version = ?");
  const remove = db.prepare("DELETE FROM settings WHERE name = ?");
  return {
    get(name: SettingName): KeptSetting | null {
      const row = get.get(name);
      return row === undefined ? null : { value: text(row, "value"), version: integer(row, "version") };
    },
    put(name: SettingName, value: string, expectedVersion: number | null): boolean {
      const done = expectedVersion === null ? insert.run(name, value) : update.run(value, name, expectedVersion);
      return Number(done.changes) === 1;
    },
    remove(name: SettingName): void {
      remove.run(name);
    },
  };
}

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
