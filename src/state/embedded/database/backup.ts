import { existsSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import process from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { ServiceError } from "../../../domain/call/service-error.js";
import { integer, type SqliteDatabase } from "./sqlite.js";
import { checkpointPages } from "./state-file.js";
import type { StoreLink } from "./worker-link.js";

/** Verbs that keep the database file unchanged while it is copied: during the copy, writes go only to the write-ahead log. */
export function createBackupVerbs(db: SqliteDatabase) {
  return {
    reads: {
      /**
       * Writes the log into the database file, which then contains all committed changes. Returns the size of the file in
       * bytes.
       */
      beginCopy(): number {
        db.prepare("PRAGMA wal_autocheckpoint = 0").get();
        const done = db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
        if (done === undefined || integer(done, "busy") !== 0) throw new Error("the log of the database is in use");
        return readPragma(db, "page_count") * readPragma(db, "page_size");
      },
      endCopy(): void {
        db.prepare(`PRAGMA wal_autocheckpoint = ${checkpointPages}`).get();
      },
    },
    writes: {},
  };
}

function readPragma(db: SqliteDatabase, name: string): number {
  const row = db.prepare(`PRAGMA ${name}`).get();
  return row === undefined ? 0 : integer(row, name);
}

/** Number of bytes that are copied in one step, in a thread of libuv's pool. */
const chunkBytes = 1_048_576;
/** Number of bytes after which the copy is synced: syncing more of them together would delay the syncs of settlements. */
const syncBytes = 4 * chunkBytes;
/** Maximum pause after a sync of the copy. The pause is as long as the sync took. */
const pauseMaxMs = 100;
/**
 * Bytes 18 and 19 of an SQLite file are 2 if it uses a write-ahead log. They are changed to 1 in the copy, which has no
 * log.
 */
const journalBytes = { from: 18, to: 20, withoutLog: 1 } as const;

/**
 * Backups of the database file while it is in use, one at a time. The service continues to serve and settle requests
 * (E-15).
 */
export class StateBackups {
  readonly #link: StoreLink<ReturnType<typeof createBackupVerbs>>;
  /**
   * Descriptor that stays open as long as the database, because closing any descriptor of the file releases this process's
   * lock on it.
   */
  readonly #source: FileHandle;
  #last: Promise<void> = Promise.resolve();
  #isClosing = false;

  /** Opens the file once, so that it can be copied after it was deleted or moved (E-23). */
  static async open(link: StoreLink<ReturnType<typeof createBackupVerbs>>, database: string): Promise<StateBackups> {
    return new StateBackups(link, await open(database, "r"));
  }

  private constructor(link: StoreLink<ReturnType<typeof createBackupVerbs>>, source: FileHandle) {
    this.#link = link;
    this.#source = source;
  }

  /**
   * Writes a consistent copy of the whole database, mode 0600. The file appears when it is complete. If it fails, it leaves
   * no file and rejects with ServiceError, with `conflict` if the file exists already.
   */
  write(file: string): Promise<void> {
    const written = this.#last.then(() => this.#write(file));
    this.#last = written.catch(() => {});
    return written;
  }

  /** Cancels the running backup, if any. Call `release` after the database is closed. */
  async stop(): Promise<void> {
    this.#isClosing = true;
    await this.#last;
  }

  async release(): Promise<void> {
    await this.#source.close();
  }

  async #write(file: string): Promise<void> {
    const folder = dirname(file);
    if (!existsSync(folder)) {
      throw unwritten(`The backup cannot be written: there is no folder ${folder}. Create it, or choose another.`);
    }
    if (existsSync(file)) {
      throw new ServiceError("conflict", `${file} exists and is not overwritten. Choose another file.`);
    }
    const unfinished = `${file}.unfinished`;
    try {
      await rm(unfinished, { force: true });
      await this.#copyTo(unfinished);
      await rename(unfinished, file);
      await syncFolder(folder);
    } catch (cause) {
      await rm(unfinished, { force: true });
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw unwritten(`The backup cannot be written to ${file}: ${reason}`, cause);
    }
  }

  async #copyTo(file: string): Promise<void> {
    const target = await open(file, "wx", 0o600);
    try {
      await this.#copy(await this.#link.read("beginCopy"), this.#source, target);
      await target.sync();
    } finally {
      await target.close();
      // Rejects only if the database is closed.
      await this.#link.read("endCopy").catch(() => {});
    }
  }

  async #copy(bytes: number, source: FileHandle, target: FileHandle): Promise<void> {
    const chunk = Buffer.allocUnsafe(chunkBytes);
    let unsynced = 0;
    for (let position = 0; position < bytes; ) {
      if (this.#isClosing) throw new Error("the service stops");
      const { bytesRead } = await source.read(chunk, 0, Math.min(chunkBytes, bytes - position), position);
      if (bytesRead === 0) throw new Error("the database file is shorter than its pages");
      if (position === 0) chunk.fill(journalBytes.withoutLog, journalBytes.from, journalBytes.to);
      const { bytesWritten } = await target.write(chunk, 0, bytesRead, position);
      position += bytesWritten;
      unsynced += bytesWritten;
      if (unsynced < syncBytes) continue;
      unsynced = 0;
      const sinceMs = performance.now();
      await target.datasync();
      await delay(Math.min(performance.now() - sinceMs, pauseMaxMs));
    }
  }
}

function unwritten(message: string, cause?: unknown): ServiceError {
  return new ServiceError("storage_unavailable", message, { cause });
}

/** Syncs the folder. Without this a power cut can lose the directory entry of the new file. */
async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const opened = await open(folder, "r");
  try {
    await opened.sync();
  } finally {
    await opened.close();
  }
}
