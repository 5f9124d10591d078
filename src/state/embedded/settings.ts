import type { SettingName, SettingsStore, StoredSetting } from "../../domain/access/administrator.js";
import type { StateChange } from "../../domain/call/ports.js";
import { integer, type SqliteDatabase, text } from "./database/sqlite.js";
import type { StoreLink } from "./database/worker-link.js";

/** Settings that the service itself writes, and the time at which each model was first seen. */
export function createSettingVerbs(db: SqliteDatabase) {
  const get = db.prepare("SELECT value, version FROM settings WHERE name = ?");
  const insert = db.prepare("INSERT INTO settings (name, value, version) VALUES (?, ?, 1) ON CONFLICT DO NOTHING");
  const update = db.prepare("UPDATE settings SET value = ?, version = version + 1 WHERE name = ? AND version = ?");
  const remove = db.prepare("DELETE FROM settings WHERE name = ?");
  const see = db.prepare("INSERT INTO models_seen (id, first_seen_at_ms) VALUES (?, ?) ON CONFLICT (id) DO NOTHING");
  const seen = db.prepare("SELECT first_seen_at_ms FROM models_seen WHERE id = ?");
  return {
    reads: {
      getSetting(name: SettingName): StoredSetting | null {
        const row = get.get(name);
        return row === undefined ? null : { value: text(row, "value"), version: integer(row, "version") };
      },
    },
    writes: {
      putSetting(name: SettingName, value: string, expectedVersion: number | null): boolean {
        const done = expectedVersion === null ? insert.run(name, value) : update.run(value, name, expectedVersion);
        return Number(done.changes) === 1;
      },
      removeSetting(name: SettingName): void {
        remove.run(name);
      },
      firstSeen: (ids: readonly string[], nowMs: number): readonly number[] =>
        ids.map((id) => {
          see.run(id, nowMs);
          return Number(seen.get(id)?.["first_seen_at_ms"] ?? nowMs);
        }),
    },
  };
}

export function createSettingsStore(
  link: StoreLink<ReturnType<typeof createSettingVerbs>>,
  notify: (change: StateChange) => void,
): SettingsStore {
  return {
    get: (name) => link.read("getSetting", name),
    async put(name, value, expectedVersion) {
      const isPut = await link.write("putSetting", name, value, expectedVersion);
      if (isPut) notify({ kind: "settings" });
      return isPut;
    },
    async remove(name) {
      await link.write("removeSetting", name);
      notify({ kind: "settings" });
    },
  };
}
