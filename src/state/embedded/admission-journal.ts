import { closeSync, ftruncateSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Logger } from "../../domain/call/ports.js";
import type { LiveRow } from "./live-rows.js";

/** Two files in turn: while one is written, the other still has what the database may not have yet. */
const fileNames = ["uis.live-a", "uis.live-b"] as const;
/** When a file has this many bytes, and the change before was long ago, the other one is begun. */
const fileBytes = 1024 * 1024;
/** By far longer than a row of a running request takes into the database. */
const changeEveryMs = 10_000;

/**
 * Notes each admission the moment it is made, before its answer can begin. A running request has its row in the database
 * some milliseconds later; a process that is killed before leaves its trace here, so that the next one can account for
 * it. Written to the kernel and not synced: that survives the process, which is all that it is for.
 */
export class AdmissionJournal {
  readonly #paths: readonly string[];
  readonly #files: readonly number[];
  readonly #now: () => number;
  readonly #log: Logger;
  #current = 0;
  #bytes = 0;
  #changedAtMs: number;
  #isFailing = false;

  /** Begins with empty files. `now` is monotonic. Throws what the file system says. */
  constructor(dataDir: string, now: () => number, log: Logger) {
    this.#paths = fileNames.map((name) => join(dataDir, name));
    this.#files = this.#paths.map((path) => openFresh(path));
    this.#now = now;
    this.#log = log;
    this.#changedAtMs = now();
  }

  /** Never throws: a request is not refused because its death could go unnoticed; it is logged once. */
  note(row: LiveRow): void {
    try {
      this.#bytes += writeSync(this.#file(), `${JSON.stringify(row)}\n`);
      if (this.#bytes >= fileBytes && this.#now() - this.#changedAtMs >= changeEveryMs) this.#change();
      this.#isFailing = false;
    } catch (err) {
      if (!this.#isFailing) this.#log.warn({ err }, "running requests cannot be noted in the data folder");
      this.#isFailing = true;
    }
  }

  /** After the store has closed: nothing runs any more. */
  close(): void {
    for (const file of this.#files) closeSync(file);
    for (const path of this.#paths) rmSync(path, { force: true });
  }

  #change(): void {
    this.#current = 1 - this.#current;
    ftruncateSync(this.#file(), 0);
    this.#bytes = 0;
    this.#changedAtMs = this.#now();
  }

  #file(): number {
    const file = this.#files[this.#current];
    if (file === undefined) throw new Error("the journal has two files");
    return file;
  }
}

/** What was noted belongs to a state that another one takes the place of. */
export function removeAdmissionJournal(dataDir: string): void {
  for (const name of fileNames) rmSync(join(dataDir, name), { force: true });
}

/** For appending: after it was cut to nothing, the next line is the first again. */
function openFresh(path: string): number {
  const file = openSync(path, "a", 0o600);
  ftruncateSync(file, 0);
  return file;
}

/** What the process before this one noted; of a line that is not whole, nothing. Call it with the database locked. */
export function readAdmissionJournal(dataDir: string): readonly LiveRow[] {
  return fileNames.flatMap((name) => {
    const lines = readIfThere(join(dataDir, name)).split("\n").slice(0, -1);
    return lines.map((line) => JSON.parse(line) as LiveRow);
  });
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw error;
  }
}
