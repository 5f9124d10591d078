import { createRequire } from "node:module";
import process from "node:process";
import { StateOpenError } from "../../../domain/service/state.js";

export type SqlValue = string | number | bigint | null;
/** Columns by name. */
export type SqlRow = Readonly<Record<string, SqlValue>>;

export interface SqliteStatement {
  run(...values: SqlValue[]): { readonly changes: number | bigint };
  get(...values: SqlValue[]): SqlRow | undefined;
  all(...values: SqlValue[]): readonly SqlRow[];
}

/** Synchronous: lives in a worker thread. Statements are prepared once, when the database is opened. */
export interface SqliteDatabase {
  exec(sql: string): void;
  prepare(sql: string): SqliteStatement;
  close(): void;
}

/** What the bindings call the switch to bigint; each has one of the two. */
interface ExactIntegers {
  setReadBigInts?(on: boolean): void;
  safeIntegers?(on: boolean): void;
}

/** From now on the statement gives all its integers as bigint: sums may be larger than a number can hold. */
export function readExactly(statement: SqliteStatement): SqliteStatement {
  const exact = statement as SqliteStatement & ExactIntegers;
  if (exact.setReadBigInts !== undefined) exact.setReadBigInts(true);
  else exact.safeIntegers?.(true);
  return statement;
}

type SqliteConstructor = new (file: string) => SqliteDatabase;

/**
 * Opens a database with the binding that the runtime has: `node:sqlite` (Node 22.13 and newer), else the optional package
 * `libsql`. Both take the same calls and read the same file. libsql adds `_metadata` to rows, so rows are read column by
 * column; `sqliteCode` hides how their errors differ. Throws StateOpenError when the runtime has neither
 * binding, and the binding's own error when SQLite cannot open the file.
 */
export function openSqlite(file: string): SqliteDatabase {
  const Sqlite = findBinding();
  return new Sqlite(file);
}

function findBinding(): SqliteConstructor {
  const builtIn = process.getBuiltinModule?.("node:sqlite") as { DatabaseSync?: SqliteConstructor } | undefined;
  if (builtIn?.DatabaseSync !== undefined) return builtIn.DatabaseSync;
  try {
    return createRequire(import.meta.url)("libsql") as SqliteConstructor;
  } catch (cause) {
    throw new StateOpenError(
      "this runtime has no SQLite: Node is older than 22.13 and the package libsql is not installed",
      "use a newer Node, or run npm install without --omit=optional",
      { cause },
    );
  }
}

/** The primary result codes of SQLite that we tell apart, by its own names without `SQLITE_`. */
export const sqliteCodes = {
  BUSY: 5,
  LOCKED: 6,
  READONLY: 8,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANTOPEN: 14,
  CONSTRAINT: 19,
  NOTADB: 26,
} as const;

const storageFaults: ReadonlyMap<number, string> = new Map([
  [sqliteCodes.BUSY, "the file is locked by another process"],
  [sqliteCodes.LOCKED, "the file is locked"],
  [sqliteCodes.READONLY, "the file cannot be written"],
  [sqliteCodes.IOERR, "the disk reports an error"],
  [sqliteCodes.CORRUPT, "the file is damaged"],
  [sqliteCodes.FULL, "the disk is full"],
  [sqliteCodes.CANTOPEN, "the file cannot be opened"],
  [sqliteCodes.NOTADB, "the file is no database"],
]);

/** What is wrong when the store itself failed and not the one statement; null otherwise. Safe to show to callers. */
export function storageFault(code: number | null): string | null {
  return code === null ? null : (storageFaults.get(code) ?? null);
}

/** The primary result code in what a binding threw; null when it came from elsewhere. */
export function sqliteCode(error: unknown): number | null {
  if (!(error instanceof Error)) return null;
  // node:sqlite calls the extended code `errcode`, libsql `rawCode`.
  const { errcode, rawCode } = error as { errcode?: unknown; rawCode?: unknown };
  const extended = errcode ?? rawCode;
  return typeof extended === "number" ? extended & 0xff : null;
}

/** Reads a column. One that the row lacks is a fault of the query and reads as "undefined" or NaN. */
export function text(row: SqlRow, column: string): string {
  return String(row[column]);
}

export function textOrNull(row: SqlRow, column: string): string | null {
  const value = row[column] ?? null;
  return value === null ? null : String(value);
}

/** For integers below 2^53: times, counts, versions. Sums are read with `readExactly`. */
export function integer(row: SqlRow, column: string): number {
  return Number(row[column]);
}

export function integerOrNull(row: SqlRow, column: string): number | null {
  const value = row[column] ?? null;
  return value === null ? null : Number(value);
}

export function bigint(row: SqlRow, column: string): bigint {
  return BigInt(row[column] ?? 0);
}
