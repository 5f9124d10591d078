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
