import { StateOpenError } from "../../../domain/service/state.js";
import { migrationSteps } from "./migration-steps.js";
import { openSqlite, type SqliteDatabase, text, textOrNull } from "./sqlite.js";

/** The number of the last step in this version. */
export const newestMigration = migrationSteps.length;

/**
 * Migrates the file to this version, or to the step `newest`. Each step is one transaction. Throws StateOpenError for a
 * file of a newer version.
 */
export function migrate(db: SqliteDatabase, nowMs: number, newest = newestMigration): void {
  const applied = appliedMigration(db);
  if (applied > migrationSteps.length) {
    throw new StateOpenError(
      `the data was written by a newer version: it is at step ${applied}, this version ends at step ${migrationSteps.length}`,
      "start the version that wrote it, or give this one another data directory",
    );
  }
  const note = db.prepare("INSERT INTO migrations (number, applied_at_ms) VALUES (?, ?)");
  migrationSteps.slice(applied, newest).forEach((sql, position) => {
    db.exec("BEGIN IMMEDIATE");
    db.exec(sql);
    note.run(applied + position + 1, nowMs);
    db.exec("COMMIT");
  });
}

/** The number of the last step that the file has; 0 for an empty file. */
export function appliedMigration(db: SqliteDatabase): number {
  db.exec("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, applied_at_ms INTEGER NOT NULL) STRICT");
  return Number(db.prepare("SELECT max(number) AS number FROM migrations").get()?.["number"] ?? 0);
}

/**
 * Tables, indexes and triggers in which the file differs from one that the first `step` steps have created; each as
 * `trigger undo_revocation is added`. SQLite's statistics for its query planner are ignored.
 */
export function schemaDifferences(db: SqliteDatabase, step: number): readonly string[] {
  const own = openSqlite(":memory:");
  try {
    migrate(own, 0, step);
    const expected = objectsOf(own);
    const found = objectsOf(db);
    const differing = [...found].filter(([name, sql]) => expected.get(name) !== sql);
    return [
      ...differing.map(([name]) => `${name} is ${expected.has(name) ? "changed" : "added"}`),
      ...[...expected.keys()].filter((name) => !found.has(name)).map((name) => `${name} is missing`),
    ];
  } finally {
    own.close();
  }
}

/** SQL by type and name. White space is not compared. */
function objectsOf(db: SqliteDatabase): ReadonlyMap<string, string> {
  const rows = db.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema").all();
  const own = rows.filter((row) => !/^sqlite_stat\d$/.test(text(row, "name")));
  return new Map(
    own.map((row) => {
      const sql = `${text(row, "tbl_name")}: ${textOrNull(row, "sql")?.replace(/\s+/g, " ") ?? ""}`;
      return [`${text(row, "type")} ${text(row, "name")}`, sql];
    }),
  );
}
