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
import process from "node:process";
import { StateOpenError } from "../../domain/service/state.js";
import { newestMigration } from "./database/migrations.js";
import { integer, openSqlite, type SqliteDatabase, sqliteCode, sqliteCodes, text } from "./database/sqlite.js";
import { databaseFile, syncDirectory } from "./database/state-file.js";
import { removeAdmissionJournal } from "./running-requests.js";

interface RestoreRequest {
  readonly dataDir: string;
  /** The backup. */
  readonly file: string;
  readonly nowMs: number;
}

/**
 * Replaces the state in `dataDir` by a copy of a backup, for a service that is stopped. At every instant the directory
 * holds either the whole former state or the whole restored one. Returns the file that keeps the former state; null when
 * there was none. Throws StateOpenError, and nothing has changed then: when the file is no sound backup, when its version
 * is newer than this one, when the directory is in use.
 */
export function restoreEmbeddedState({ dataDir, file, nowMs }: RestoreRequest): string | null {
  const target = databaseFile(dataDir);
  const copy = `${target}.restoring`;
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    copyIn(file, copy, dataDir);
    checkBackup(copy, file);
    const release = claim(dataDir, target);
    try {
      const replaced = existsSync(target) ? keep(target, nowMs) : null;
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

/** Chowns the copy to the data directory's owner, as which the service may run. */
function copyIn(file: string, copy: string, dataDir: string): void {
  removeDatabase(copy);
  copyFileSync(file, copy, constants.COPYFILE_EXCL);
  chmodSync(copy, 0o600);
  const { uid, gid } = statSync(dataDir);
  if (process.getuid?.() === 0) chownSync(copy, uid, gid);
  const written = openSync(copy, "r+");
  fsyncSync(written);
  closeSync(written);
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
      `${file} was written by a newer version: it is at step ${number}, this version knows ${newestMigration}`,
      "restore it with the version that wrote it",
    );
  } catch (cause) {
    if (cause instanceof StateOpenError || sqliteCode(cause) === null) throw cause;
    throw refuse(`is no backup of this service: ${cause instanceof Error ? cause.message : String(cause)}`, cause);
  } finally {
    db.close();
  }
}

/**
 * Takes the lock that a running service would hold, and folds the log of the former state into its file: a log that
 * stayed behind would be applied to the restored one. What it returns gives the lock back.
 */
function claim(dataDir: string, target: string): () => void {
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
      throw new StateOpenError(
        `the data directory ${dataDir} is in use by another process`,
        "stop the service that runs there, then restore",
        { cause },
      );
    }
    if (code !== sqliteCodes.CORRUPT && code !== sqliteCodes.NOTADB) throw cause;
    // A damaged file is what a restore is for: its log is of no use to anybody.
    removeLogs(target);
    return () => {};
  }
  return () => db.close();
}

/** Gives the former state a second name with the time in it. A link takes no space and leaves the lock in place. */
function keep(target: string, nowMs: number): string {
  const kept = `${target}.replaced-${new Date(nowMs).toISOString().replaceAll(":", "-")}`;
  try {
    linkSync(target, kept);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code !== "EPERM" && code !== "ENOTSUP" && code !== "EOPNOTSUPP" && code !== "ENOSYS") throw error;
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

/** What SQLite lays beside its file, in any of its modes. */
function removeLogs(file: string): void {
  for (const suffix of ["-wal", "-shm", "-journal"]) rmSync(`${file}${suffix}`, { force: true });
}
