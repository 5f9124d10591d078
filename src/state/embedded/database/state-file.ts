import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import process from "node:process";
import { StateOpenError } from "../../../domain/service/state.js";
import { fileFaultOf } from "../../../lib/file-faults.js";
import { appliedMigration, migrate, newestMigration } from "./migrations.js";
import { openSqlite, type SqliteDatabase, sqliteCode, sqliteCodes } from "./sqlite.js";

interface OpenOptions {
  /**
   * If the former database is missing, starts with an empty one and moves the remaining files of the former one to another
   * folder.
   */
  readonly newStore?: boolean;
}

/**
 * Opens `<dataDir>/uis.db`. Creates a missing directory with mode 0700 and a missing file with 0600 (SEC-31). Throws
 * StateOpenError, also for a folder whose database is missing although it had one (E-24). An existing directory that other
 * users can read keeps its mode, with a warning.
 */
export function openStateFile(
  dataDir: string,
  { newStore = false }: OpenOptions = {},
): { db: SqliteDatabase; warnings: readonly string[] } {
  const file = databaseFile(dataDir);
  try {
    const warnings = prepareFiles(dataDir, file, newStore);
    const db = openSqlite(file);
    applySettings(db);
    const kept = keepFormer(db, file);
    migrate(db, Date.now());
    if (kept === null) return { db, warnings };
    const notice = `The state has a new format. The file before it is kept in ${kept}: an earlier version starts after uis restore ${kept}. Delete it when you do not need it.`;
    return { db, warnings: [...warnings, notice] };
  } catch (cause) {
    throw toOpenError(cause, dataDir, file);
  }
}

function prepareFiles(dataDir: string, file: string, newStore: boolean): readonly string[] {
  const warnings: string[] = [];
  const lost = findLostStore(dataDir);
  if (lost !== null && !newStore) throw lostStoreError(dataDir, lost);
  if (lost !== null) warnings.push(`The files of the lost state are kept in ${setAside(dataDir, lost)}.`);
  else if (newStore && existsSync(file)) warnings.push("--new-store has no effect: the data directory has a state.");
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  // The file is created only if it is missing: closing any descriptor of an existing file would release this process's
  // locks on it.
  if (!existsSync(file)) createDatabase(file);
  // SQLite creates its other files with the mode of this file.
  if ((statSync(file).mode & 0o077) !== 0) chmodSync(file, 0o600);
  syncDirectory(dataDir);
  // An existing directory may serve other purposes too (`--data-dir /tmp`), so it gets a warning and keeps its mode.
  if (process.platform === "win32" || (statSync(dataDir).mode & 0o077) === 0) return warnings;
  return [
    ...warnings,
    `The data directory ${dataDir} is open to other users of this machine. Run: chmod 700 '${dataDir}'`,
  ];
}

/**
 * Creates the database under another name and moves it into place when it has its tables: after a crash or on a full disk,
 * an empty `uis.db` would look like a lost database.
 */
function createDatabase(file: string): void {
  const unfinished = `${file}.creating-${process.pid}`;
  try {
    rmSync(unfinished, { force: true });
    closeSync(openSync(unfinished, "wx", 0o600));
    const db = openSqlite(unfinished);
    try {
      // One sync at the end instead of several for each step.
      db.exec("PRAGMA synchronous = OFF");
      migrate(db, Date.now());
    } finally {
      db.close();
    }
    syncFile(unfinished);
    placeNew(unfinished, file);
  } finally {
    rmSync(unfinished, { force: true });
    removeLogs(unfinished);
  }
}

/**
 * Copies a file of an earlier version before it is migrated: the earlier version can open the copy, but not the migrated
 * file. Replaces the copy of an earlier migration from the same step. Null: the file is of this version.
 */
function keepFormer(db: SqliteDatabase, file: string): string | null {
  const step = appliedMigration(db);
  if (step === 0 || step >= newestMigration) return null;
  const kept = `${file}.step-${step}`;
  const unfinished = `${kept}.unfinished`;
  try {
    rmSync(unfinished, { force: true });
    // VACUUM INTO accepts an empty file, which is created here with its mode.
    closeSync(openSync(unfinished, "wx", 0o600));
    db.prepare("VACUUM INTO ?").run(unfinished);
    syncFile(unfinished);
    renameSync(unfinished, kept);
    syncDirectory(dirname(file));
    return kept;
  } finally {
    rmSync(unfinished, { force: true });
  }
}

/**
 * Moves the new file into place. If another process has created the file in the meantime, that file is kept, because the
 * process may be using it.
 */
function placeNew(unfinished: string, file: string): void {
  try {
    linkSync(unfinished, file);
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") return;
    if (!noLinks.has(code)) throw error;
    renameSync(unfinished, file);
  }
}

/** Codes of a file system without hard links. */
export const noLinks: ReadonlySet<string> = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS"]);

/** Files that exist only in a folder that had a database. After a clean stop only the folder `spool` is left. */
const signsOfStore = ["uis.db-wal", "uis.db-journal", "uis.live-a", "uis.live-b", "spool"] as const;

/** A data folder without its database. */
interface LostStore {
  /** The database file exists but is empty. */
  readonly isEmpty: boolean;
  /** Names of the other files of the former state that remain. */
  readonly left: readonly string[];
}

/**
 * Detects a missing or empty database in a folder that had one; null: the database exists, or the folder never had one.
 * Opens no database, because SQLite deletes the log of an empty file.
 */
export function findLostStore(dataDir: string): LostStore | null {
  const bytes = statSync(databaseFile(dataDir), { throwIfNoEntry: false })?.size ?? null;
  if (bytes !== null && bytes > 0) return null;
  const left = signsOfStore.filter((name) => existsSync(join(dataDir, name)));
  return bytes === null && left.length === 0 ? null : { isEmpty: bytes === 0, left };
}

/** The error with which a start fails when the former database is missing. */
export function lostStoreError(dataDir: string, { isEmpty, left }: LostStore): StateOpenError {
  const beside = left.length === 0 ? "" : `, but there is ${left.join(", ")} of a former service`;
  return new StateOpenError(
    `the state is lost: ${databaseFile(dataDir)} is ${isEmpty ? "empty" : "missing"}${beside}`,
    "nothing was changed: restore a file of uis backup with uis restore FILE, or set REDIS_URL if that service " +
      "used Redis, or begin with an empty state with uis serve --new-store",
  );
}

/** Moves the remaining files of a lost database into a new folder and returns its path. */
function setAside(dataDir: string, { left }: LostStore): string {
  const folder = join(dataDir, `replaced-${nameOfTime(Date.now())}`);
  mkdirSync(folder, { mode: 0o700 });
  for (const name of ["uis.db", "uis.db-shm", ...left]) {
    if (existsSync(join(dataDir, name))) renameSync(join(dataDir, name), join(folder, name));
  }
  return folder;
}

/** A time as part of a file name. */
export function nameOfTime(ms: number): string {
  return new Date(ms).toISOString().replaceAll(":", "-");
}

/**
 * Number of pages in the WAL file (16 MB) after which SQLite copies them into the database. Commits wait for this
 * checkpoint and its syncs; with SQLite's default of 1,000 pages a busy service runs several checkpoints per second.
 */
export const checkpointPages = 4_000;

/**
 * Size of SQLite's page cache. The default of 2 MB holds the rows of about 5,000 keys in use; with more keys, each request
 * would read pages again.
 */
const cacheKib = 32_768;

/**
 * WAL and synchronous=FULL: an acknowledged write survives a power cut. EXCLUSIVE, set before the first access: one
 * connection and no shared memory, which also avoids a race between two connections at a checkpoint in SQLite before
 * 3.51.3. Each setting is read back, because SQLite silently ignores settings that the file system does not support.
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

/** Converts an error of the file system or of SQLite to the error with which a start fails, with cause and fix. */
export function toOpenError(cause: unknown, dataDir: string, file: string): StateOpenError {
  if (cause instanceof StateOpenError) return cause;
  const detail = cause instanceof Error ? cause.message : String(cause);
  const refuse = (what: string, fix: string) => new StateOpenError(what, fix, { cause });
  const fault = fileFaultOf(cause);
  if (fault !== null) {
    const fix = `${fault.fix}, or choose another directory with --data-dir`;
    return refuse(`${fault.path ?? file} cannot be opened: ${fault.cause}`, fix);
  }
  switch (sqliteCode(cause)) {
    case sqliteCodes.BUSY:
    case sqliteCodes.LOCKED:
      return inUse(dataDir, "stop the service that runs there, or choose another directory with --data-dir", cause);
    case sqliteCodes.CORRUPT:
    case sqliteCodes.NOTADB:
      return refuse(
        `${file} is not a valid database: ${detail}`,
        "restore a file of uis backup with uis restore FILE, which keeps the damaged file",
      );
    case sqliteCodes.FULL:
      return refuse(
        `${file} cannot be written: the disk is full`,
        "free some space on it, or choose another directory with --data-dir",
      );
    default:
      return refuse(
        `${file} cannot be opened: ${detail}`,
        `make ${dataDir} writable for this user, or choose another directory with --data-dir`,
      );
  }
}

export function inUse(dataDir: string, fix: string, cause: unknown): StateOpenError {
  return new StateOpenError(`the data directory ${dataDir} is in use by another process`, fix, { cause });
}

/** Whether another process holds the database of this directory, as a service does while it runs. */
export function isStateInUse(dataDir: string): boolean {
  const file = databaseFile(dataDir);
  if (!existsSync(file) || findLostStore(dataDir) !== null) return false;
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

/**
 * Path of the database file. In the same folder SQLite writes files with `-wal` and, for other tools, `-shm` appended to
 * the name.
 */
export function databaseFile(dataDir: string): string {
  return join(dataDir, "uis.db");
}

/**
 * Syncs a directory. Without this a power cut can lose the directory entry of a new file, and with it all acknowledged
 * writes.
 */
export function syncDirectory(directory: string): void {
  if (process.platform !== "win32") syncFile(directory, "r");
}

export function syncFile(file: string, flags = "r+"): void {
  const opened = openSync(file, flags);
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}

/** Removes the log files of the database, of every journal mode. */
export function removeLogs(file: string): void {
  for (const suffix of ["-wal", "-shm", "-journal"]) rmSync(`${file}${suffix}`, { force: true });
}
