/**
 * SQLite by whichever binding the runtime has: `node:sqlite` (Node 22.13 and newer), else the optional package `libsql`.
 * Both take the same calls and read the same file. libsql adds `_metadata` to rows, so rows are read
 * column by column; how their errors differ is known to sqlite-codes.
 */
import { createRequire } from "node:module";
import process from "node:process";
import { StateOpenError } from "../../domain/service/state.js";

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

/** Throws StateOpenError when the runtime has neither binding, and the binding's own error when SQLite cannot open the file. */
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
