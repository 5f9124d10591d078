/** The file on disk: where it is, who may read it, and the settings under which SQLite writes it. */
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, statSync } from "node:fs";
import process from "node:process";
import { StateOpenError } from "../../domain/service/state.js";
import { databaseFile, syncDirectory } from "./data-files.js";
import { migrate } from "./migrations.js";
import { openSqlite, type SqliteDatabase } from "./sqlite-binding.js";
import { sqliteCode, sqliteCodes } from "./sqlite-codes.js";

/**
 * Opens `<dataDir>/uis.db`, making both where they do not exist: mode 0700 and 0600 (SEC-31). Throws StateOpenError; what
 * others may read although they should not comes back as a warning when it is not ours to change.
 */
export function openStateFile(dataDir: string): { db: SqliteDatabase; warnings: readonly string[] } {
  const file = databaseFile(dataDir);
  try {
    const warnings = prepareFiles(dataDir, file);
    const db = openSqlite(file);
    applySettings(db);
    migrate(db, Date.now());
    return { db, warnings };
  } catch (cause) {
    throw toOpenError(cause, dataDir, file);
  }
}

function prepareFiles(dataDir: string, file: string): readonly string[] {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  // Opened only to make it: closing any descriptor of the file drops the locks that this process has on it.
  if (!existsSync(file)) closeSync(openSync(file, "a", 0o600));
  // SQLite gives its other files the mode of this one.
  if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600);
  syncDirectory(dataDir);
  // A directory that was there before may serve others, too (`--data-dir /tmp`): saying so is better than closing it.
  if (process.platform === "win32" || (statSync(dataDir).mode & 0o077) === 0) return [];
  return [`The data directory ${dataDir} is open to other users of this machine. Run: chmod 700 '${dataDir}'`];
}

/**
 * WAL and synchronous=FULL: an acknowledged write survives a power cut. EXCLUSIVE, set before the first access: one
 * connection and no shared memory, which also keeps clear of the race of two connections at a checkpoint in SQLite
 * before 3.51.3. Each is read back, because SQLite falls back silently where a file system cannot do it.
 */
function applySettings(db: SqliteDatabase): void {
  const wanted = { locking_mode: "exclusive", journal_mode: "wal", synchronous: 2 };
  db.exec("PRAGMA busy_timeout = 0");
  for (const [name, value] of Object.entries(wanted)) {
    db.prepare(`PRAGMA ${name} = ${value}`).get();
    const actual = db.prepare(`PRAGMA ${name}`).get()?.[name];
    if (actual !== value) {
      throw new StateOpenError(
        `SQLite does not offer ${name} = ${value} here (it says ${actual})`,
        "put the data directory on a local file system",
      );
    }
  }
  db.exec("BEGIN IMMEDIATE");
  db.exec("COMMIT");
}

function toOpenError(cause: unknown, dataDir: string, file: string): StateOpenError {
  if (cause instanceof StateOpenError) return cause;
  const detail = cause instanceof Error ? cause.message : String(cause);
  const refuse = (what: string, fix: string) => new StateOpenError(what, fix, { cause });
  switch (sqliteCode(cause)) {
    case sqliteCodes.BUSY:
    case sqliteCodes.LOCKED:
      return refuse(
        `the data directory ${dataDir} is in use by another process`,
        "stop the service that runs there, or choose another directory with --data-dir",
      );
    case sqliteCodes.CORRUPT:
    case sqliteCodes.NOTADB:
      return refuse(`${file} is not a sound database: ${detail}`, "restore it from a backup, or move it away");
    case sqliteCodes.FULL:
      return refuse(`the disk of ${dataDir} is full`, "free some space, or choose another directory with --data-dir");
    default:
      return refuse(
        `${file} cannot be opened: ${detail}`,
        `make ${dataDir} writable for this user, or choose another directory with --data-dir`,
      );
  }
}
