import { closeSync, existsSync, ftruncateSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Clock, Logger } from "../../../domain/call/ports.js";
import type { LostRequest } from "../../../domain/metering/ledger.js";
import { fromCheckedLine, toCheckedLine } from "../../../lib/crypto.js";
import type { WorkerLink } from "./worker-link.js";

/** Names of the two files, which are written alternately: the other file still has the rows that the database may lack. */
const fileNames = ["uis.live-a", "uis.live-b"] as const;
/** When a file has this size and was in use for at least `rotateEveryMs`, the other file is truncated and used. */
const fileBytes = 1024 * 1024;
/** Minimum time that one file is used. The row of a running request reaches the database far sooner. */
const rotateEveryMs = 10_000;

/**
 * Files with a line for each admitted request. The row of a running request reaches the database some milliseconds later;
 * if the process is killed before that, the next process finds the request here. Lines are written without a sync, so they
 * survive a kill of the process but not a power cut.
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

  /** Truncates both files. `now` returns monotonic time. Throws errors of the file system. */
  constructor(dataDir: string, now: () => number, log: Logger) {
    const [first, second] = fileNames.map((name) => join(dataDir, name)) as [string, string];
    this.#paths = [first, second];
    this.#files = [openTruncated(first), openTruncated(second)];
    this.#now = now;
    this.#log = log;
    this.#rotatedAtMs = now();
  }

  /**
   * Appends lines for these requests. Never throws: if the journal cannot be written, requests are still admitted. The
   * first failure is logged.
   */
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

  /** Closes the files. Call it after the store has closed, when no request runs any more. */
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

/**
 * Opens a file for appending and truncates it. In append mode, the first line after a later truncation is at the start of
 * the file.
 */
function openTruncated(path: string): number {
  const file = openSync(path, "a", 0o600);
  ftruncateSync(file, 0);
  return file;
}

/**
 * Reads the journal of the previous process; the caller must hold the lock of the database. `unreadable` is the number of
 * skipped lines that were damaged, for example by a full disk or a crash.
 */
export function readAdmissionJournal(dataDir: string): { rows: readonly LostRequest[]; unreadable: number } {
  const files = fileNames.map((name) => join(dataDir, name)).filter((path) => existsSync(path));
  const lines = files.flatMap((path) => readFileSync(path, "utf8").split("\n")).filter((line) => line !== "");
  const rows = lines.map(rowOf).filter((row) => row !== null);
  return { rows, unreadable: lines.length - rows.length };
}

/** Deletes the journal of the former state when a restored state replaces it. */
export function removeAdmissionJournal(dataDir: string): void {
  for (const name of fileNames) rmSync(join(dataDir, name), { force: true });
}

/** Parses a line; null if it is damaged. Version 0.1 wrote only the JSON, without a checksum. */
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

/**
 * Delay before a row is sent to the database, so that several are written together. A request that ends sooner needs no
 * row.
 */
const rowDelayMs = 2;

interface RunningRequestsDeps {
  readonly link: Pick<WorkerLink, "carry" | "uncarry" | "nudge">;
  readonly journal: AdmissionJournal;
  readonly clock: Pick<Clock, "after">;
}

export interface RunningRequests {
  begin(row: LostRequest): void;
  /** Writes the journal immediately, because the answer to one of the recorded requests begins. */
  record(): void;
  /**
   * Returns false if the row was written already or comes from a former process; the settlement that follows then removes
   * it.
   */
  end(requestId: string): boolean;
}

/**
 * Records running requests, so that the next process finds them after a kill: at the end of this turn of the event loop in
 * the journal and some milliseconds later in the database, both without a sync. A request that is settled in the turn of
 * its admission is not recorded, and one write for all requests of a turn costs far less than one write for each.
 */
export function createRunningRequests({ link, journal, clock }: RunningRequestsDeps): RunningRequests {
  /** Requests that are neither in the journal nor sent to the database yet. */
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
