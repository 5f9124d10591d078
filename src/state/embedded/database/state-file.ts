import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { StateOpenError } from "../../../domain/service/state.js";
import { migrate, newestMigration } from "./migrations.js";
import { removeAdmissionJournal } from "./running-requests.js";
import { integer, openSqlite, type SqliteDatabase, sqliteCode, sqliteCodes, text } from "./sqlite.js";

/**
 * Opens `<dataDir>/uis.db`. Creates missing ones with mode 0700 and 0600 (SEC-31). Throws StateOpenError. An existing
 * directory that other users can read keeps its mode, with a warning.
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
  // Only if missing: closing any descriptor of the file releases this process's locks on it.
  if (!existsSync(file)) closeSync(openSync(file, "a", 0o600));
  // SQLite gives its other files the mode of this one.
  if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600);
  syncDirectory(dataDir);
  // An existing directory may serve other purposes too (`--data-dir /tmp`), so it gets a warning and keeps its mode.
  if (process.platform === "win32" || (statSync(dataDir).mode & 0o077) === 0) return [];
  return [`The data directory ${dataDir} is open to other users of this machine. Run: chmod 700 '${dataDir}'`];
}

/**
 * Pages in the WAL file (16 MB) after which SQLite copies them into the database. Commits wait for that copy and its syncs;
 * with SQLite's default of 1,000 a busy service does it several times a second.
 */
export const checkpointPages = 4_000;

/**
 * Memory for pages, filled as they are used. SQLite's default of 2 MB holds the rows of about 5,000 keys in use; more of
 * them read pages again for each request.
 */
const cacheKib = 32_768;

/**
 * WAL and synchronous=FULL: an acknowledged write survives a power cut. EXCLUSIVE, set before the first access: one
 * connection and no shared memory, which also keeps clear of the race of two connections at a checkpoint in SQLite
 * before 3.51.3. Each is read back, because SQLite falls back silently on a file system without support.
 */
function applySettings(db: SqliteDatabase): void {
  const wanted = {
    locking_mode: "exclusive",
    journal_mode: "wal",
    synchronous: 2,
    wal_autocheckpoint: checkpointPages,
    cache_size: -cacheKib,
  };
  db.exec("PRAGMA busy_timeout = 0");
  for (const [name, value] of Object.entries(wanted)) {
    db.prepare(`PRAGMA ${name} = ${value}`).get();
    const actual = db.prepare(`PRAGMA ${name}`).get()?.[name];
    if (actual !== value) {
      throw new StateOpenError(
        `SQLite does not support ${name} = ${value} here (it uses ${actual})`,
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
      return inUse(dataDir, "stop the service that runs there, or choose another directory with --data-dir", cause);
    case sqliteCodes.CORRUPT:
    case sqliteCodes.NOTADB:
      return refuse(`${file} is not a valid database: ${detail}`, "restore it from a backup, or move it away");
    case sqliteCodes.FULL:
      return refuse(`the disk of ${dataDir} is full`, "free some space, or choose another directory with --data-dir");
    default:
      return refuse(
        `${file} cannot be opened: ${detail}`,
        `make ${dataDir} writable for this user, or choose another directory with --data-dir`,
      );
  }
}

function inUse(dataDir: string, fix: string, cause: unknown): StateOpenError {
  return new StateOpenError(`the data directory ${dataDir} is in use by another process`, fix, { cause });
}

/** Whether another process holds the database of this directory, as a service does while it runs. */
export function isStateInUse(dataDir: string): boolean {
  const file = databaseFile(dataDir);
  if (!existsSync(file)) return false;
  let db: SqliteDatabase | null = null;
  try {
    db = openSqlite(file);
    db.exec("PRAGMA busy_timeout = 0");
    db.exec("BEGIN IMMEDIATE");
    db.exec("ROLLBACK");
    return false;
  } catch (error) {
    const code = sqliteCode(error);
    return code === sqliteCodes.BUSY || code === sqliteCodes.LOCKED;
  } finally {
    db?.close();
  }
}

/** The database file; SQLite writes `-wal` and, for other tools, `-shm` beside it. */
export function databaseFile(dataDir: string): string {
  return join(dataDir, "uis.db");
}

/** Without it a power cut can lose the name of a new file, and all acknowledged writes with it. */
function syncDirectory(directory: string): void {
  if (process.platform !== "win32") syncFile(directory, "r");
}

function syncFile(file: string, flags = "r+"): void {
  const opened = openSync(file, flags);
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}

interface RestoreRequest {
  readonly dataDir: string;
  /** The backup. */
  readonly file: string;
  readonly nowMs: number;
}

/**
 * Replaces the state in `dataDir` by a copy of a backup, while the service is stopped. The directory always contains either
 * the whole former state or the whole restored one. Returns the file with the former state; null when there was none.
 * Throws StateOpenError and changes nothing when the file is not a valid backup or is of a newer version, or when the directory
 * is in use.
 */
export function restoreEmbeddedState({ dataDir, file, nowMs }: RestoreRequest): string | null {
  const target = databaseFile(dataDir);
  const copy = `${target}.restoring`;
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    copyBackup(file, copy, dataDir);
    checkBackup(copy, file);
    const release = lockFormer(dataDir, target);
    try {
      const replaced = existsSync(target) ? linkFormer(target, nowMs) : null;
      renameSync(copy, target);
      removeAdmissionJournal(dataDir);
      syncDirectory(dataDir);
      return replaced;
    } finally {
      release();
    }
  } catch (cause) {
    if (cause instanceof StateOpenError) throw cause;
    const detail = cause instanceof Error ? cause.message : String(cause);
    throw new StateOpenError(
      `${file} cannot be restored: ${detail}`,
      "check that this user can read the file and write the data directory, and that there is space for both",
      { cause },
    );
  } finally {
    removeDatabase(copy);
  }
}

/** Chowns the copy to the data directory's owner, the user of the service. */
function copyBackup(file: string, copy: string, dataDir: string): void {
  removeDatabase(copy);
  copyFileSync(file, copy, constants.COPYFILE_EXCL);
  chmodSync(copy, 0o600);
  const { uid, gid } = statSync(dataDir);
  if (process.getuid?.() === 0) chownSync(copy, uid, gid);
  syncFile(copy);
}

function checkBackup(copy: string, file: string): void {
  const refuse = (what: string, cause?: unknown): StateOpenError =>
    new StateOpenError(`${file} ${what}`, "name a file that `uis backup` has written", { cause });
  const db = openSqlite(copy);
  try {
    const [found] = db.prepare("PRAGMA integrity_check").all();
    const verdict = found === undefined ? "no answer" : text(found, "integrity_check");
    if (verdict !== "ok") throw refuse(`is damaged: ${verdict}`);
    const version = db.prepare("SELECT max(number) AS number FROM migrations").get();
    const number = version === undefined ? 0 : integer(version, "number");
    if (number < 1) throw refuse("is a database without state of this service");
    if (number <= newestMigration) return;
    throw new StateOpenError(
      `${file} was written by a newer version: it is at step ${number}, this version ends at step ${newestMigration}`,
      "restore it with the version that wrote it",
    );
  } catch (cause) {
    if (cause instanceof StateOpenError || sqliteCode(cause) === null) throw cause;
    throw refuse(`is not a backup of this service: ${cause instanceof Error ? cause.message : String(cause)}`, cause);
  } finally {
    db.close();
  }
}

/**
 * Locks the former state like a running service, and writes its log back into its file: a remaining log would be applied to
 * the restored state. Returns the function that releases the lock.
 */
function lockFormer(dataDir: string, target: string): () => void {
  if (!existsSync(target)) {
    removeLogs(target);
    return () => {};
  }
  const db = openSqlite(target);
  try {
    lockAlone(db);
    removeLogs(target);
  } catch (cause) {
    db.close();
    const code = sqliteCode(cause);
    if (code === sqliteCodes.BUSY || code === sqliteCodes.LOCKED) {
      throw inUse(dataDir, "stop the service that runs there, then restore", cause);
    }
    if (code !== sqliteCodes.CORRUPT && code !== sqliteCodes.NOTADB) throw cause;
    // A damaged file is a reason for a restore, and its log is useless.
    removeLogs(target);
    return () => {};
  }
  return () => db.close();
}

/** Links the former state to a second name with the time. A link takes no space and does not affect the lock. */
function linkFormer(target: string, nowMs: number): string {
  const kept = `${target}.replaced-${new Date(nowMs).toISOString().replaceAll(":", "-")}`;
  try {
    linkSync(target, kept);
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (!["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"].includes(code)) throw error;
    // A file system without hard links.
    copyFileSync(target, kept, constants.COPYFILE_EXCL);
  }
  return kept;
}

function lockAlone(db: SqliteDatabase): void {
  db.exec("PRAGMA busy_timeout = 0");
  db.prepare("PRAGMA locking_mode = exclusive").get();
  db.exec("BEGIN EXCLUSIVE");
  db.exec("COMMIT");
  // Leaving the log mode writes the log back and removes it, and keeps the lock.
  db.prepare("PRAGMA journal_mode = delete").get();
}

function removeDatabase(file: string): void {
  rmSync(file, { force: true });
  removeLogs(file);
}

/** Removes the files beside the database, of every journal mode. */
function removeLogs(file: string): void {
  for (const suffix of ["-wal", "-shm", "-journal"]) rmSync(`${file}${suffix}`, { force: true });
}
