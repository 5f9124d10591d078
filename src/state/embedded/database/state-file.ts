import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { StateOpenError } from "../../../domain/service/state.js";
import { migrate } from "./migrations.js";
import { openSqlite, type SqliteDatabase, sqliteCode, sqliteCodes } from "./sqlite.js";

/**
 * Opens `<dataDir>/uis.db`. Creates both where they are missing, with mode 0700 and 0600 (SEC-31). Throws StateOpenError.
 * A folder that other users can read and that existed before is left as it is, with a warning.
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
  // Opened only to create it: closing any descriptor of the file drops the locks that this process has on it.
  if (!existsSync(file)) closeSync(openSync(file, "a", 0o600));
  // SQLite gives its other files the mode of this one.
  if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600);
  syncDirectory(dataDir);
  // An existing directory may serve other purposes too (`--data-dir /tmp`), so it gets a warning and keeps its mode.
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

/** The one file that everything is kept in; SQLite lays `-wal` and, for other tools, `-shm` beside it. */
export function databaseFile(dataDir: string): string {
  return join(dataDir, "uis.db");
}

/** Without it a power cut can take the name of a new file, and all acknowledged writes with it. */
export function syncDirectory(directory: string): void {
  if (process.platform === "win32") return;
  const opened = openSync(directory, "r");
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}

/**
 * Writes a consistent copy of the whole database, mode 0600, under a name that is there only when it is complete. False,
 * and nothing written, when the file exists. Nothing else runs meanwhile: about a second for 200 MB.
 */
export function backUpTo(db: SqliteDatabase, file: string): boolean {
  if (existsSync(file)) return false;
  const unfinished = `${file}.unfinished`;
  try {
    // SQLite writes into a file that is there when it is empty; made by us, nobody else can read it.
    rmSync(unfinished, { force: true });
    closeSync(openSync(unfinished, "wx", 0o600));
    db.prepare("VACUUM INTO ?").run(unfinished);
    const written = openSync(unfinished, "r+");
    fsyncSync(written);
    closeSync(written);
    renameSync(unfinished, file);
    syncDirectory(dirname(file));
    return true;
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw error;
  }
}
