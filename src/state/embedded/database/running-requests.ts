import { closeSync, existsSync, ftruncateSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Clock, Logger } from "../../../domain/call/ports.js";
import type { LostRequest } from "../../../domain/metering/ledger.js";
import { fromCheckedLine, toCheckedLine } from "../../../lib/crypto.js";
import type { WorkerLink } from "./worker-link.js";

/** Written alternately: the other file still has the rows that the database may lack. */
const fileNames = ["uis.live-a", "uis.live-b"] as const;
/** At this size, and `rotateEveryMs` after the last change, the other file is truncated and written. */
const fileBytes = 1024 * 1024;
/** Far longer than the row of a running request takes to reach the database. */
const rotateEveryMs = 10_000;

/**
 * Lines of admitted requests. The row of a running request reaches the database some milliseconds later; after a kill in
 * between, the next process finds the request here. Written without a sync, so it survives the process and not a power cut.
 */
export class AdmissionJournal {
  readonly #paths: readonly string[];
  readonly #files: readonly [number, number];
  readonly #now: () => number;
  readonly #log: Logger;
  #current: 0 | 1 = 0;
  #bytes = 0;
  #rotatedAtMs: number;
  #isFailing = false;

  /** Truncates both files. `now` is monotonic. Throws the file system's errors. */
  constructor(dataDir: string, now: () => number, log: Logger) {
    const [first, second] = fileNames.map((name) => join(dataDir, name)) as [string, string];
    this.#paths = [first, second];
    this.#files = [openTruncated(first), openTruncated(second)];
    this.#now = now;
    this.#log = log;
    this.#rotatedAtMs = now();
  }

  /** Never throws: a request is not rejected because its crash could go unnoticed. The first failure is logged. */
  note(rows: readonly LostRequest[]): void {
    // After a failed write the file may end in half a line, so the next record begins with a line break.
    let lines = this.#isFailing ? "\n" : "";
    for (const row of rows) lines += toCheckedLine(JSON.stringify(row));
    try {
      const written = writeSync(this.#files[this.#current], lines);
      this.#bytes += written;
      const bytes = Buffer.byteLength(lines);
      if (written < bytes) throw new Error(`only ${written} of ${bytes} bytes were written`);
      if (this.#bytes >= fileBytes && this.#now() - this.#rotatedAtMs >= rotateEveryMs) this.#rotate();
      this.#isFailing = false;
    } catch (err) {
      if (!this.#isFailing) this.#log.warn({ err }, "running requests cannot be recorded in the data folder");
      this.#isFailing = true;
    }
  }

  /** Call it once the store has closed: no request runs any more. */
  close(): void {
    for (const file of this.#files) closeSync(file);
    for (const path of this.#paths) rmSync(path, { force: true });
  }

  #rotate(): void {
    this.#current = this.#current === 0 ? 1 : 0;
    ftruncateSync(this.#files[this.#current], 0);
    this.#bytes = 0;
    this.#rotatedAtMs = this.#now();
  }
}

/** Opened for appending, so that after a truncation the next line is the first one. */
function openTruncated(path: string): number {
  const file = openSync(path, "a", 0o600);
  ftruncateSync(file, 0);
  return file;
}

/**
 * Reads the journal of the previous process; the database must be locked. `unreadable` is the number of damaged lines, as
 * by a full disk or a crash, which are skipped.
 */
export function readAdmissionJournal(dataDir: string): { rows: readonly LostRequest[]; unreadable: number } {
  const files = fileNames.map((name) => join(dataDir, name)).filter((path) => existsSync(path));
  const lines = files.flatMap((path) => readFileSync(path, "utf8").split("\n")).filter((line) => line !== "");
  const rows = lines.map(rowOf).filter((row) => row !== null);
  return { rows, unreadable: lines.length - rows.length };
}

/** Deletes the journal of a state that a restored one replaces. */
export function removeAdmissionJournal(dataDir: string): void {
  for (const name of fileNames) rmSync(join(dataDir, name), { force: true });
}

/** Null for a damaged line. Version 0.1 wrote the JSON alone. */
function rowOf(line: string): LostRequest | null {
  const text = line.startsWith("{") ? line : fromCheckedLine(line);
  if (text === null) return null;
  try {
    const row: unknown = JSON.parse(text);
    return isRow(row) ? row : null;
  } catch {
    return null;
  }
}

function isRow(value: unknown): value is LostRequest {
  if (typeof value !== "object" || value === null) return false;
  const row = value as Partial<Record<keyof LostRequest, unknown>>;
  const texts = [row.requestId, row.account, row.model, row.operation];
  const numbers = [row.admittedAtMs, row.promptTokens, row.completionTokens];
  return (
    texts.every((text) => typeof text === "string") &&
    numbers.every((number) => Number.isSafeInteger(number)) &&
    (row.keyId === null || typeof row.keyId === "string")
  );
}

/** Delay of a row, so that several are written together. A request that ends sooner never writes one. */
const rowDelayMs = 2;

interface RunningRequestsDeps {
  readonly link: Pick<WorkerLink, "carry" | "uncarry" | "nudge">;
  readonly journal: AdmissionJournal;
  readonly clock: Pick<Clock, "after">;
}

export interface RunningRequests {
  begin(row: LostRequest): void;
  /** Writes the journal now: the answer of one of them begins. */
  record(): void;
  /** False: the row was written already, or was left by a former process, and the settlement that follows removes it. */
  end(requestId: string): boolean;
}

/**
 * Records running requests for the process after a kill: at the end of this turn of the event loop in the journal, some
 * milliseconds later in the database, neither of them synced. A request that is settled in the turn of its admission needs
 * no record, and one write for those of a turn costs far less than one each.
 */
export function createRunningRequests({ link, journal, clock }: RunningRequestsDeps): RunningRequests {
  /** Neither in the journal nor on their way to the database. */
  let unrecorded = new Map<string, LostRequest>();
  let isScheduled = false;
  let isDelayed = false;
  const nudge = (): void => {
    isDelayed = false;
    link.nudge();
  };
  const record = (): void => {
    if (unrecorded.size === 0) return;
    const rows = [...unrecorded.values()];
    unrecorded = new Map();
    journal.note(rows);
    for (const row of rows) link.carry(row);
    if (isDelayed) return;
    isDelayed = true;
    clock.after(rowDelayMs, nudge);
  };
  return {
    begin(row) {
      unrecorded.set(row.requestId, row);
      if (isScheduled) return;
      isScheduled = true;
      setImmediate(() => {
        isScheduled = false;
        record();
      });
    },
    record,
    end: (requestId) => unrecorded.delete(requestId) || link.uncarry(requestId),
  };
}
