import { createRequire } from "node:module";
import process from "node:process";
import { ServiceError } from "../../../domain/call/service-error.js";
import { StateOpenError } from "../../../domain/service/state.js";

export type SqlValue = string | number | bigint | null;
/** Values of a row by the name of the column. */
export type SqlRow = Readonly<Record<string, SqlValue>>;

export interface SqliteStatement {
  run(...values: SqlValue[]): { readonly changes: number | bigint };
  get(...values: SqlValue[]): SqlRow | undefined;
  all(...values: SqlValue[]): readonly SqlRow[];
}

/** A database with synchronous calls, used in a worker thread. Statements are prepared once, when the database is opened. */
export interface SqliteDatabase {
  exec(sql: string): void;
  prepare(sql: string): SqliteStatement;
  close(): void;
}

/** The methods that switch a statement to bigint: node:sqlite has one of them, libsql the other. */
interface ExactIntegers {
  setReadBigInts?(on: boolean): void;
  safeIntegers?(on: boolean): void;
}

/** Makes the statement return all integers as bigint, for sums beyond the precision of a number. */
export function readExactly(statement: SqliteStatement): SqliteStatement {
  const exact = statement as SqliteStatement & ExactIntegers;
  if (exact.setReadBigInts !== undefined) exact.setReadBigInts(true);
  else exact.safeIntegers?.(true);
  return statement;
}

type SqliteConstructor = new (file: string) => SqliteDatabase;

/**
 * Opens a database with `node:sqlite` (Node 22.13 and newer), else with the optional package `libsql`. Both have the same
 * calls and file format. libsql adds `_metadata` to rows, so rows are read column by column; `sqliteCode` hides the
 * difference of errors. Throws StateOpenError without a binding, and the binding's error when the file cannot be opened.
 */
export function openSqlite(file: string): SqliteDatabase {
  return new (findBinding())(file);
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

/** Primary result codes of SQLite, by their names without `SQLITE_`. */
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
  [sqliteCodes.NOTADB, "the file is not a database"],
]);

/** Describes a fault of the whole store in words that clients may see; null for a fault of one statement. */
export function storageFault(code: number | null): string | null {
  return code === null ? null : (storageFaults.get(code) ?? null);
}

/** The primary result code of a binding's error; null for other errors. */
export function sqliteCode(error: unknown): number | null {
  if (!(error instanceof Error)) return null;
  // The extended code: `errcode` of node:sqlite, `rawCode` of libsql.
  const { errcode, rawCode } = error as { errcode?: unknown; rawCode?: unknown };
  const extended = errcode ?? rawCode;
  return typeof extended === "number" ? extended & 0xff : null;
}

/**
 * Records of type `T` as rows with these columns: `created_at_ms` is the field `createdAtMs`, and `models_json` the JSON
 * text of `models`. `values` are in the order of `names`.
 */
export function columnsOf<T extends object>(names: string) {
  const columns = names.split(", ").map((column) => {
    const field = column.replace(/_json$/, "").replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    return { column, field: field as keyof T, isJson: column.endsWith("_json") };
  });
  return {
    names,
    placeholders: names.replace(/\w+/g, "?"),
    values: (record: T): SqlValue[] =>
      columns.map(({ field, isJson }) => (isJson ? JSON.stringify(record[field]) : (record[field] as SqlValue))),
    read(row: SqlRow): T {
      const record: Partial<Record<keyof T, unknown>> = {};
      for (const { column, field, isJson } of columns) {
        record[field] = isJson ? JSON.parse(text(row, column)) : (row[column] ?? null);
      }
      return record as T;
    },
  };
}

/** Reads a column. A column that is missing, by a mistake in the query, yields "undefined" or NaN. */
export function text(row: SqlRow, column: string): string {
  return String(row[column]);
}

export function textOrNull(row: SqlRow, column: string): string | null {
  const value = row[column] ?? null;
  return value === null ? null : String(value);
}

/** Reads an integer below 2^53: times, counts, versions. Sums are read with `readExactly`. */
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

/** A call of a verb (a named function on the database, run in the worker thread). */
export interface Request {
  readonly verb: string;
  readonly values: readonly unknown[];
}

/** The result of a request, in a form that can cross threads. `sqlite` is the primary result code, null for other faults. */
export type Outcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string; readonly sqlite: number | null };

/** The outcomes in the order of the requests. */
export type RunBatch = (requests: readonly Request[], isSynced: boolean) => readonly Outcome[];

type VerbTable = Readonly<Record<string, (...values: never[]) => unknown>>;

/** Synchronous functions on the database, each one atomic step. */
export interface Verbs {
  /** Reads run after the commit, outside of any transaction. */
  readonly reads: VerbTable;
  readonly writes: VerbTable;
}

/**
 * Rows that the writes of a transaction collect in memory. They are written before its commit, or discarded if it is rolled
 * back.
 */
export class CollectedRows {
  readonly #pending = new Set<{ write(): void; discard(): void }>();

  get isEmpty(): boolean {
    return this.#pending.size === 0;
  }

  /** Rows of one table by name. `write` writes the rows that were set since the last call. */
  of<V>(writeAll: (rows: ReadonlyMap<string, V>) => void) {
    let rows = new Map<string, V>();
    const table = {
      get: (name: string): V | undefined => rows.get(name),
      set: (name: string, row: V): void => {
        if (rows.size === 0) this.#pending.add(table);
        rows.set(name, row);
      },
      values: (): Iterable<V> => rows.values(),
      write(): void {
        if (rows.size > 0) writeAll(rows);
        rows = new Map();
      },
      discard(): void {
        rows = new Map();
      },
    };
    return table;
  }

  write(): void {
    for (const table of this.#pending) table.write();
    this.#pending.clear();
  }

  discard(): void {
    for (const table of this.#pending) table.discard();
    this.#pending.clear();
  }
}

/**
 * Group commit: all waiting writes are one transaction with one sync. When one fails, all are rolled back and run again,
 * each in its own savepoint, so that it does not affect the others. Reads run after the commit: they never see writes that
 * could still be lost, and they succeed even if the file cannot be written.
 */
export function createRunBatch(db: SqliteDatabase, verbs: Verbs & { readonly collected: CollectedRows }): RunBatch {
  const { collected } = verbs;
  const reads = new Map(Object.entries(verbs.reads) as [string, (...values: readonly unknown[]) => unknown][]);
  const writes = new Map(Object.entries(verbs.writes) as [string, (...values: readonly unknown[]) => unknown][]);

  const write = ({ verb, values }: Request): Outcome => ({ ok: true, value: writes.get(verb)?.(...values) });

  const writeApart = (request: Request): Outcome => {
    db.exec("SAVEPOINT write");
    try {
      const outcome = write(request);
      collected.write();
      db.exec("RELEASE write");
      return outcome;
    } catch (error) {
      collected.discard();
      if (storageFault(sqliteCode(error)) !== null) throw error;
      db.exec("ROLLBACK TO write; RELEASE write");
      return failure(error);
    }
  };

  // Prepared once, because `exec` would compile the statements for every batch.
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  let wasSynced = true;
  /** With NORMAL a commit is not synced to the disk; the next commit with FULL also syncs the earlier writes. */
  const setSynced = (isSynced: boolean): void => {
    if (isSynced === wasSynced) return;
    db.exec(`PRAGMA synchronous = ${isSynced ? "FULL" : "NORMAL"}`);
    wasSynced = isSynced;
  };

  const writeAll = (batch: readonly Request[], isSynced: boolean): readonly Outcome[] => {
    if (batch.length === 0) return [];
    let fault: unknown;
    for (const writeOne of [write, writeApart]) {
      try {
        setSynced(isSynced);
        begin.run();
        const outcomes = batch.map(writeOne);
        collected.write();
        commit.run();
        return outcomes;
      } catch (error) {
        fault = error;
        collected.discard();
        rollBack(db);
        if (storageFault(sqliteCode(error)) !== null) break;
      }
    }
    return batch.map(() => failure(fault));
  };

  const read = ({ verb, values }: Request): Outcome => {
    try {
      return { ok: true, value: reads.get(verb)?.(...values) };
    } catch (error) {
      return failure(error);
    }
  };

  return (requests, isSynced) => {
    const writing = requests.filter(({ verb }) => writes.has(verb));
    const outcomes = writeAll(writing, isSynced);
    const written = new Map(writing.map((request, position) => [request, outcomes[position]]));
    return requests.map((request) => written.get(request) ?? read(request));
  };
}

/** Rolls back, unless SQLite has already done so after a fault. */
export function rollBack(db: SqliteDatabase): void {
  try {
    db.exec("ROLLBACK");
  } catch (error) {
    if (!(error instanceof Error && error.message.includes("no transaction is active"))) throw error;
  }
}

function failure(error: unknown): Outcome {
  const message = error instanceof Error ? error.message : String(error);
  return { ok: false, message, sqlite: sqliteCode(error) };
}

/** The error of a failed request: `storage_unavailable`, or `conflict` for an id or secret that exists. */
export function errorOf({ message, sqlite }: Outcome & { ok: false }): Error {
  const fault = storageFault(sqlite);
  if (fault !== null) return unavailable(fault, new Error(message));
  if (sqlite === sqliteCodes.CONSTRAINT) {
    return new ServiceError("conflict", "An object with this id or secret exists.", { cause: new Error(message) });
  }
  return new Error(`the store failed: ${message}`);
}

export function unavailable(why: string, cause?: unknown): ServiceError {
  return new ServiceError("storage_unavailable", `The store cannot be used: ${why}.`, { cause });
}
