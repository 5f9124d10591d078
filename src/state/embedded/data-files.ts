import { closeSync, fsyncSync, openSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";

/** The one file that everything is kept in; SQLite lays `-wal` and, for other tools, `-shm` beside it. */
export function databaseFile(dataDir: string): string {
  return join(dataDir, "uis.db");
}

/** Without it a power cut can take the name of a new file, and all acknowledged writes with it. */
export function syncDirectory(directory: string): void {
  if (process.platform === "win32") return;
  const opened = openSync(directory, "r");
  try {
    fsyncSync(opened);
  } finally {
    closeSync(opened);
  }
}
