import { StateOpenError } from "../../../domain/service/state.js";
import { migrationSteps } from "./migration-steps.js";
import type { SqliteDatabase } from "./sqlite.js";

/** The number of the last step in this version. */
export const newestMigration = migrationSteps.length;

/**
 * Brings the file up to this version, or to that of the step `newest`, each step whole or not at all. Throws
 * StateOpenError for a file of a newer version.
 */
export function migrate(db: SqliteDatabase, nowMs: number, newest = newestMigration): void {
  db.exec("CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, applied_at_ms INTEGER NOT NULL) STRICT");
  const applied = Number(db.prepare("SELECT max(number) AS number FROM migrations").get()?.["number"] ?? 0);
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
