import { statSync, unwatchFile, watchFile } from "node:fs";
import { stat } from "node:fs/promises";
import type { Logger } from "../../../domain/call/ports.js";
import { databaseFile } from "./state-file.js";

interface FileWatchDeps {
  readonly dataDir: string;
  readonly log: Logger;
  readonly everyMs: number;
  /** Called when the fault changes; null: the files are in place again. */
  readonly onChange: (fault: string | null) => void;
}

interface WatchedFile {
  readonly path: string;
  readonly name: string;
  /** Device and inode of the open file; null until it exists: SQLite creates the log with the first write. */
  identity: string | null;
}

/**
 * Compares the open files of the store with their paths (E-23). After a deletion, a move or a replacement, SQLite continues
 * with open files that no later start can find. libuv checks the data folder every second, and code here runs only if the
 * folder has changed, which each of these causes. Only paths are examined, because closing a second descriptor would
 * release SQLite's lock.
 */
export class FileWatch {
  readonly #deps: FileWatchDeps;
  readonly #files: readonly WatchedFile[];
  readonly #look = (): void => void this.#compare();
  readonly #firstLook: NodeJS.Timeout;
  #fault: string | null = null;
  /** Number of comparisons that run or are requested: a change during a comparison causes another one after it. */
  #wanted = 0;
  #isClosed = false;

  /** The store must be open. */
  constructor(deps: FileWatchDeps) {
    this.#deps = deps;
    this.#files = ["", "-wal"].map((suffix) => {
      const path = databaseFile(deps.dataDir) + suffix;
      const found = statSync(path, { bigint: true, throwIfNoEntry: false });
      return { path, name: `uis.db${suffix}`, identity: found === undefined ? null : identityOf(found) };
    });
    watchFile(deps.dataDir, { interval: deps.everyMs, persistent: false }, this.#look);
    // libuv does not report a change before its first check of the folder, so one comparison runs after it.
    this.#firstLook = setTimeout(this.#look, deps.everyMs).unref();
  }

  /** `uis.db was deleted or moved`; null: the files are in place. */
  get fault(): string | null {
    return this.#fault;
  }

  /** Stops watching. Call it before the store closes, because closing removes the log file. */
  close(): void {
    unwatchFile(this.#deps.dataDir, this.#look);
    clearTimeout(this.#firstLook);
    this.#isClosed = true;
  }

  /** Never rejects. */
  async #compare(): Promise<void> {
    this.#wanted += 1;
    if (this.#wanted > 1) return;
    while (this.#wanted > 0) {
      this.#wanted = 1;
      const faults = await Promise.all(this.#files.map(faultOf));
      this.#wanted -= 1;
      this.#note(faults.find((fault) => fault !== null) ?? null);
    }
  }

  #note(fault: string | null): void {
    if (fault === this.#fault || this.#isClosed) return;
    this.#fault = fault;
    const { log, dataDir, onChange } = this.#deps;
    if (fault === null) log.info({ data_dir: dataDir }, "the files of the store are in place again");
    else {
      const fix =
        "put it back, or save the state with uis backup FILE before you stop this service, then uis restore FILE";
      log.error({ data_dir: dataDir, fault }, `the store refuses writes, because ${fault}: ${fix}`);
    }
    onChange(fault);
  }
}

async function faultOf(file: WatchedFile): Promise<string | null> {
  try {
    const identity = identityOf(await stat(file.path, { bigint: true }));
    file.identity ??= identity;
    return identity === file.identity ? null : `${file.name} was replaced by another file`;
  } catch (error) {
    const isGone = ["ENOENT", "ENOTDIR", "ESTALE"].includes((error as NodeJS.ErrnoException).code ?? "");
    // Other errors of the disk are reported by the writes themselves.
    return isGone && file.identity !== null ? `${file.name} was deleted or moved` : null;
  }
}

function identityOf({ dev, ino }: { readonly dev: bigint; readonly ino: bigint }): string {
  return `${dev}:${ino}`;
}
