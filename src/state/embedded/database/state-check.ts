import { statSync } from "node:fs";
import { newestMigration } from "./migrations.js";
import { integer, openSqlite, type SqliteDatabase, sqliteCode, sqliteCodes, text } from "./sqlite.js";
import { databaseFile, findLostStore, lostStoreError, toOpenError } from "./state-file.js";

/** A problem in the database file of a stopped service. */
export interface StateFileProblem {
  readonly message: string;
  readonly fix: string;
  /** Whether a start would fail. */
  readonly isFatal: boolean;
}

/** Maximum size of files whose content is checked, because a check takes a second for some hundred megabytes. */
const checkedBytesMax = 1024 ** 3;

interface CheckOptions {
  readonly nowMs: number;
  /** How far stored times may be ahead of the clock without a report. */
  readonly leadMaxMs: number;
}

/**
 * Examines `uis.db` without migrating it. Reports a file that is missing, damaged, of a newer version, or that has times
 * ahead of the clock. Null: a start can use or create the file, or another process uses it now.
 */
export function inspectStateFile(dataDir: string, options: CheckOptions): StateFileProblem | null {
  const file = databaseFile(dataDir);
  let db: SqliteDatabase | null = null;
  try {
    const lost = findLostStore(dataDir);
    if (lost !== null) throw lostStoreError(dataDir, lost);
    const bytes = statSync(file, { throwIfNoEntry: false })?.size ?? null;
    if (bytes === null) return null;
    db = openSqlite(file);
    db.exec("PRAGMA busy_timeout = 0");
    return problemIn(db, file, bytes, options);
  } catch (cause) {
    const code = sqliteCode(cause);
    if (code === sqliteCodes.BUSY || code === sqliteCodes.LOCKED) return null;
    const { message, fix } = toOpenError(cause, dataDir, file);
    return { message, fix, isFatal: true };
  } finally {
    db?.close();
  }
}

function problemIn(db: SqliteDatabase, file: string, bytes: number, { nowMs, leadMaxMs }: CheckOptions) {
  const version = integer(db.prepare("SELECT max(number) AS number FROM migrations").get() ?? {}, "number");
  if (version > newestMigration) {
    const message = `${file} was written by a newer version: it is at step ${version}, this version ends at step ${newestMigration}`;
    return { message, fix: "start the version that wrote it, or restore a backup of this one", isFatal: true };
  }
  if (bytes <= checkedBytesMax) {
    const [found] = db.prepare("PRAGMA quick_check(1)").all();
    const verdict = found === undefined ? "no answer" : text(found, "quick_check");
    const fix = "restore a file of uis backup with uis restore FILE, which keeps the damaged file";
    if (verdict !== "ok") return { message: `${file} is damaged: ${verdict}`, fix, isFatal: false };
  }
  const newestMs = integer(db.prepare("SELECT coalesce(max(at_ms), 0) AS at_ms FROM settled").get() ?? {}, "at_ms");
  if (newestMs - nowMs <= leadMaxMs) return null;
  const hours = ((newestMs - nowMs) / 3_600_000).toFixed(1);
  return {
    message: `times in ${file} are up to ${hours} h ahead of this machine's clock`,
    fix: "set the clock; if it is right, run uis state repair-time",
    isFatal: false,
  };
}
