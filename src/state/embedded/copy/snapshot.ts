import { StateOpenError } from "../../../domain/service/state.js";
import type { CopiedKind, CopiedRecords, StateSource } from "../../../domain/service/state-copy.js";
import { sha256Hex } from "../../../lib/crypto.js";
import { migrate } from "../database/migrations.js";
import { integer, openSqlite, type SqliteDatabase, text } from "../database/sqlite.js";
import { removeLogs } from "../database/state-file.js";
import { createSnapshotReaders } from "./records.js";

/** Name of the setting with a text that is encrypted with the master key and different in every store. */
const canaryName = "secrets.canary";

/**
 * Opens a file that `State.backup` has written, to copy its records. Migrates this file to this version, and never writes
 * to the store from which it was created. Throws StateOpenError for a file of a newer version, a damaged one, or one that
 * no service has used.
 */
export function openSnapshot(file: string): StateSource {
  let db: SqliteDatabase | null = null;
  const close = (): void => {
    db?.close();
    removeLogs(file);
  };
  try {
    db = openSqlite(file);
    // Syncs are off, because the file is deleted after the copy and need not survive a power cut.
    db.exec("PRAGMA synchronous = OFF");
    migrate(db, Date.now());
    const canary = canaryOf(db);
    const readers = createSnapshotReaders(db);
    return {
      id: sha256Hex(canary).slice(0, 32),
      canary,
      runningRequests: integer(db.prepare("SELECT count(*) AS running FROM live_requests").get() ?? {}, "running"),
      records: <K extends CopiedKind>(kind: K): Iterable<CopiedRecords[K]> => readers[kind](),
      close,
    };
  } catch (cause) {
    close();
    if (cause instanceof StateOpenError) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    const fix = "run the command as the user of the service, and check the state with uis doctor";
    throw new StateOpenError(`the backup ${file} cannot be read: ${reason}`, fix, { cause });
  }
}

function canaryOf(db: SqliteDatabase): string {
  const row = db.prepare("SELECT value FROM settings WHERE name = ?").get(canaryName);
  if (row !== undefined) return text(row, "value");
  throw new StateOpenError(
    "no service has used this state yet, so there is nothing to copy",
    "start the new service with an empty Redis",
  );
}
