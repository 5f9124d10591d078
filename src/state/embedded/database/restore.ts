import {
  chmodSync,
  chownSync,
  constants,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import process from "node:process";
import { StateOpenError } from "../../../domain/service/state.js";
import { newestMigration, schemaDifferences } from "./migrations.js";
import { removeAdmissionJournal } from "./running-requests.js";
import { integer, openSqlite, type SqliteDatabase, sqliteCode, sqliteCodes, text } from "./sqlite.js";
import {
  databaseFile,
  findLostStore,
  inUse,
  nameOfTime,
  noLinks,
  removeLogs,
  syncDirectory,
  syncFile,
} from "./state-file.js";

interface RestoreRequest {
  readonly dataDir: string;
  /** The backup. */
  readonly file: string;
  readonly nowMs: number;
}

/**
 * Replaces the state in `dataDir` by a copy of a backup, while the service is stopped. At any time the directory contains
 * either the complete former state or the complete restored state. Returns the file with the former state; null when there
 * was none. Throws StateOpenError and changes nothing when the file is not a valid backup or is of a newer version, or when
 * the directory is in use.
 */
export function restoreEmbeddedState({ dataDir, file, nowMs }: RestoreRequest): string | null {
  const target = databaseFile(dataDir);
  const copy = `${target}.restoring`;
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    copyBackup(file, copy, dataDir);
    checkBackup(copy, file);
    const release = lockFormer(dataDir, target, nowMs);
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

/** Copies the backup. The copy gets the owner of the data directory, because the service runs as this user. */
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
    if (number > newestMigration) {
      throw new StateOpenError(
        `${file} was written by a newer version: it is at step ${number}, this version ends at step ${newestMigration}`,
        "restore it with the version that wrote it",
      );
    }
    // A trigger, for example, could undo the revocation of a key.
    const [different] = schemaDifferences(db, number);
    if (different !== undefined) throw refuse(`has a schema that is not this service's: ${different}`);
  } catch (cause) {
    if (cause instanceof StateOpenError || sqliteCode(cause) === null) throw cause;
    throw refuse(`is not a backup of this service: ${cause instanceof Error ? cause.message : String(cause)}`, cause);
  } finally {
    db.close();
  }
}

/**
 * Locks the former state as a running service does, and writes its log back into its file: SQLite would apply a remaining
 * log to the restored state. Returns the function that releases the lock.
 */
function lockFormer(dataDir: string, target: string, nowMs: number): () => void {
  // SQLite would delete the log of an empty file, but this log may be the only remaining part of the former state.
  if (!existsSync(target) || findLostStore(dataDir) !== null) {
    keepLogs(target, nowMs);
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
    // A damaged file is no obstacle, because it is a reason for a restore.
    keepLogs(target, nowMs);
    return () => {};
  }
  return () => db.close();
}

/** Creates a hard link to the former state whose name contains the time. A link takes no space and does not affect the lock. */
function linkFormer(target: string, nowMs: number): string {
  const kept = keptName(target, nowMs);
  try {
    linkSync(target, kept);
  } catch (error) {
    if (!noLinks.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
    copyFileSync(target, kept, constants.COPYFILE_EXCL);
  }
  return kept;
}

function keptName(target: string, nowMs: number): string {
  return `${target}.replaced-${nameOfTime(nowMs)}`;
}

/** Renames the logs of a file that cannot be opened to match the name under which the file is kept. */
function keepLogs(target: string, nowMs: number): void {
  for (const suffix of ["-wal", "-journal"]) {
    if (existsSync(target + suffix)) renameSync(target + suffix, keptName(target, nowMs) + suffix);
  }
  removeLogs(target);
}

function lockAlone(db: SqliteDatabase): void {
  db.exec("PRAGMA busy_timeout = 0");
  db.prepare("PRAGMA locking_mode = exclusive").get();
  db.exec("BEGIN EXCLUSIVE");
  db.exec("COMMIT");
  // Leaving WAL mode writes the log back into the file and removes the log, without releasing the lock.
  db.prepare("PRAGMA journal_mode = delete").get();
}

function removeDatabase(file: string): void {
  rmSync(file, { force: true });
  removeLogs(file);
}
