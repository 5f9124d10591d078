/**
 * Group commit: all writes that waited together become one transaction, so that one sync of the disk serves them all.
 * Nearly always none of them is refused. When one is, all are rolled back and run again, each in a savepoint of its own:
 * then it leaves the others as they are. Reads run after the commit and therefore never see what could still be lost;
 * they also run when nothing can be written.
 */
import type { SqliteDatabase } from "./sqlite-binding.js";
import { sqliteCode, storageFault } from "./sqlite-codes.js";
import type { Reads, Verbs, Writes } from "./verbs.js";

export interface Request {
  readonly verb: keyof Reads | keyof Writes;
  readonly values: readonly unknown[];
}

/** What came of a request, in a form that can cross threads. `sqlite` is the primary result code, null for other faults. */
export type Outcome =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string; readonly sqlite: number | null };

/** The outcomes in the order of the requests. */
export type RunBatch = (requests: readonly Request[], isSynced: boolean) => readonly Outcome[];

type Verb = (...values: readonly unknown[]) => unknown;

export function createRunBatch(db: SqliteDatabase, verbs: Verbs): RunBatch {
  const reads = new Map(Object.entries(verbs.reads) as [string, Verb][]);
  const writes = new Map(Object.entries(verbs.writes) as [string, Verb][]);

  const write = ({ verb, values }: Request): Outcome => ({ ok: true, value: writes.get(verb)?.(...values) });

  const writeApart = (request: Request): Outcome => {
    db.exec("SAVEPOINT write");
    try {
      const outcome = write(request);
      verbs.deferred.write();
      db.exec("RELEASE write");
      return outcome;
    } catch (error) {
      verbs.deferred.forget();
      if (storageFault(sqliteCode(error)) !== null) throw error;
      db.exec("ROLLBACK TO write; RELEASE write");
      return failure(error);
    }
  };

  let wasSynced = true;
  /** With NORMAL a commit is not synced, but the next one with FULL syncs all that was written before it. */
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
        db.exec("BEGIN IMMEDIATE");
        const outcomes = batch.map(writeOne);
        verbs.deferred.write();
        db.exec("COMMIT");
        return outcomes;
      } catch (error) {
        fault = error;
        verbs.deferred.forget();
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

/** After some faults SQLite has rolled back by itself, and says that there is no transaction; anything else is a fault. */
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
