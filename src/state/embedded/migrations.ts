import { StateOpenError } from "../../domain/state.js";
import type { SqliteDatabase } from "./sqlite-binding.js";

/** Steps from an empty file to what this version reads, in order; number n is at position n - 1. Never edit one that was released. */
const migrations: readonly string[] = [
  `CREATE TABLE api_keys (
     id TEXT NOT NULL PRIMARY KEY,
     name TEXT NOT NULL,
     account TEXT NOT NULL,
     scope TEXT NOT NULL,
     hash TEXT NOT NULL UNIQUE,
     prefix TEXT NOT NULL,
     last4 TEXT NOT NULL,
     models_json TEXT NOT NULL,
     created_at_ms INTEGER NOT NULL,
     created_by TEXT NOT NULL,
     expires_at_ms INTEGER,
     revoked_at_ms INTEGER,
     last_used_at_ms INTEGER
   ) STRICT, WITHOUT ROWID;
   CREATE INDEX api_keys_by_newest ON api_keys (created_at_ms DESC, id DESC);
   CREATE TABLE models_seen (
     id TEXT NOT NULL PRIMARY KEY,
     first_seen_at_ms INTEGER NOT NULL
   ) STRICT, WITHOUT ROWID;`,
];

/** Brings the file up to this version, each step whole or not at all. Throws StateOpenError for a file of a newer version. */
export function migrate(db: SqliteDatabase, nowMs: number): void {
  db.exec("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, applied_at_ms INTEGER NOT NULL) STRICT");
  const applied = Number(db.prepare("SELECT max(number) AS number FROM migrations").get()?.["number"] ?? 0);
  if (applied > migrations.length) {
    throw new StateOpenError(
      `the data was written by a newer version: it is at step ${applied}, this version knows ${migrations.length}`,
      "start the version that wrote it, or give this one another data directory",
    );
  }
  const note = db.prepare("INSERT INTO migrations (number, applied_at_ms) VALUES (?, ?)");
  migrations.slice(applied).forEach((sql, position) => {
    db.exec("BEGIN IMMEDIATE");
    db.exec(sql);
    note.run(applied + position + 1, nowMs);
    db.exec("COMMIT");
  });
}
