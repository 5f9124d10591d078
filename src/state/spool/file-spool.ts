import { createHash } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { Settlement, SettlementSpool, SpooledSettlement, SpoolSlot } from "../../domain/metering/ledger.js";
import { StateOpenError } from "../../domain/service/state.js";
import { fileFaultOf } from "../../lib/file-faults.js";
import { fromSpoolLine, listSegments, Segment, toSpoolLine } from "./segment.js";

/** Size at which the next segment begins, so that segments whose settlements are stored can be deleted. */
const segmentBytes = 4 * 1024 * 1024;
/** Maximum number of settlements that are only in memory while the disk cannot be written; beyond it no request is admitted. */
const memoryMax = 10_000;
/**
 * Maximum number of settlements above the maximum of the spool. They belong to requests that were admitted before it was
 * full.
 */
const admittedMax = 10_000;
/** Maximum number of settlements in one attempt to write after a fault, so that an attempt costs little. */
const persistedMax = 500;
/** Share of the maximum size at which a warning is logged. */
const warnShare = 0.8;

export interface FileSpoolOptions {
  /** Created when it is missing. */
  readonly folder: string;
  /** Folders of processes that no longer run, whose settlements are adopted. */
  readonly adopted?: readonly string[];
  /** Folder on another disk. `close` writes the settlements that are only in memory into it. Null disables this. */
  readonly spillDir: string | null;
  /** Maximum of waiting settlements; beyond it no request is admitted. */
  readonly sizeMax: number;
  readonly log: Logger;
}

interface Entry {
  readonly settlement: Settlement;
  /** Serial number of the entry in this spool. */
  readonly number: number;
  /** Segment that contains the entry; null: the entry is only in memory. */
  segment: Segment | null;
}

interface Waiting {
  readonly entry: Entry;
  resolve(): void;
}

/**
 * Settlements that wait for the store, in files of the data folder (USE-11). Settlements that arrive during a sync share
 * the next sync. All settlements are in memory too, so only a restart reads the files. While the disk cannot be written, up
 * to 10,000 settlements are only in memory (E-21).
 */
export class FileSpool implements SettlementSpool {
  readonly #sizeMax: number;
  readonly #folder: string;
  readonly #spillDir: string | null;
  readonly #log: Logger;
  /** Entries in the order of their numbers; those before `#first` are settled. */
  #entries: Entry[] = [];
  #first = 0;
  #nextNumber = 1;
  #nextSegment = 1;
  #current: Segment | null = null;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | null = null;
  /** Entries that are only in memory and not on a disk, in their order. */
  #memoryOnly: Entry[] = [];
  #hasWarned = false;
  #fault: string | null = null;

  /**
   * Opens a spool and adopts the files of earlier processes, also those in the spill folder. Rejects when a folder cannot
   * be read.
   */
  static async open(options: FileSpoolOptions): Promise<FileSpool> {
    const spool = new FileSpool(options);
    await mkdir(options.folder, { recursive: true, mode: 0o700 });
    for (const folder of options.adopted ?? []) {
      for (const segment of await listSegments(folder)) await spool.#adopt(segment);
    }
    for (const segment of await listSegments(options.folder)) {
      spool.#nextSegment = segment.number + 1;
      await spool.#adopt(segment);
    }
    for (const folder of [options.folder, ...(options.adopted ?? [])]) await spool.#adoptSpilled(folder);
    return spool;
  }

  private constructor({ folder, spillDir, sizeMax, log }: FileSpoolOptions) {
    this.#folder = folder;
    this.#spillDir = spillDir;
    this.#sizeMax = sizeMax;
    this.#log = log;
  }

  get size(): number {
    return this.#entries.length - this.#first;
  }

  get memoryOnly(): number {
    return this.#memoryOnly.length;
  }

  get fault(): string | null {
    return this.#fault;
  }

  /** Maximum of waiting settlements. While the disk cannot be written, it is the number of settlements on disk plus 10,000. */
  get sizeMax(): number {
    if (this.#fault === null) return this.#sizeMax;
    return Math.min(this.#sizeMax, this.size - this.#memoryOnly.length + memoryMax);
  }

  get oldestAtMs(): number | null {
    return this.#entries[this.#first]?.settlement.endedAtMs ?? null;
  }

  append(settlement: Settlement): Promise<void> {
    if (this.size >= this.sizeMax + admittedMax) {
      return Promise.reject(
        new ServiceError("storage_unavailable", `Usage cannot be kept: ${this.size} settlements wait for the store.`),
      );
    }
    const entry: Entry = { settlement, number: this.#nextNumber++, segment: null };
    this.#entries.push(entry);
    this.#warnWhenFilling();
    return new Promise((resolve) => {
      this.#waiting.push({ entry, resolve });
      this.#startWriting();
    });
  }

  async oldest(max: number): Promise<readonly SpooledSettlement[]> {
    const oldest = this.#entries.slice(this.#first, this.#first + max);
    return oldest.map(({ settlement, number }) => ({ settlement, end: String(number) }));
  }

  async release(slot: SpoolSlot): Promise<void> {
    const until = Number(slot);
    // An entry that is still being written may be settled; its segment must be known before the segment is deleted.
    await this.#written();
    const settled: Segment[] = [];
    for (let entry = this.#entries[this.#first]; entry !== undefined && entry.number <= until; ) {
      if (entry.segment !== null && settled.at(-1) !== entry.segment) settled.push(entry.segment);
      this.#first += 1;
      entry = this.#entries[this.#first];
    }
    if (this.#memoryOnly.length > 0) this.#memoryOnly = this.#memoryOnly.filter(({ number }) => number > until);
    const stillUsed = this.#entries[this.#first]?.segment ?? null;
    for (const segment of settled) {
      if (segment === stillUsed) continue;
      if (segment === this.#current) this.#current = null;
      await segment.remove();
    }
    // Settled entries are removed in large steps, because each removal from the front moves the whole rest of the list.
    if (this.#first < 1_000 && this.#first < this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#first);
    this.#first = 0;
    this.#hasWarned = false;
  }

  async persist(): Promise<void> {
    await this.#written();
    while (this.#memoryOnly.length > 0) {
      if (!(await this.#write(this.#memoryOnly.slice(0, persistedMax)))) return;
      this.#memoryOnly = this.#memoryOnly.filter(({ segment }) => segment === null);
    }
  }

  async close(): Promise<number> {
    await this.#written();
    await this.#takeBackDeleted();
    await this.persist();
    if (this.#memoryOnly.length > 0 && this.#spillDir !== null) {
      await this.#spill(join(this.#spillDir, spillName(this.#folder)));
    }
    await this.#current?.close();
    return this.#memoryOnly.length;
  }

  /** Adopts the settlements that an earlier process with this spool wrote into the spill folder. */
  async #adoptSpilled(folder: string): Promise<void> {
    if (this.#spillDir === null) return;
    try {
      for (const segment of await listSegments(join(this.#spillDir, spillName(folder)))) await this.#adopt(segment);
    } catch (cause) {
      const detail = cause instanceof Error ? cause.message : String(cause);
      const message = `the spill folder cannot be read: ${detail}`;
      throw new StateOpenError(message, "set UIS_SPILL_DIR to a folder that this user can read and write", { cause });
    }
  }

  async #adopt(segment: Segment): Promise<void> {
    const lines = await segment.readLines();
    let damaged = 0;
    for (const line of lines) {
      const settlement = fromSpoolLine(line);
      if (settlement === null) damaged += 1;
      else this.#entries.push({ settlement, number: this.#nextNumber++, segment });
    }
    if (damaged > 0) this.#log.error({ segment: segment.number, lines: damaged }, "skipped damaged lines of the spool");
    if (lines.length === damaged) await segment.remove();
  }

  /** Writes one batch at a time; settlements that arrive during a write form the next batch. */
  #startWriting(): void {
    if (this.#writing !== null || this.#waiting.length === 0) return;
    this.#writing = this.#writeBatch(this.#waiting.splice(0)).then(() => {
      this.#writing = null;
      this.#startWriting();
    });
  }

  async #written(): Promise<void> {
    while (this.#writing !== null) await this.#writing;
  }

  async #writeBatch(batch: readonly Waiting[]): Promise<void> {
    const isOnDisk = await this.#write(batch.map(({ entry }) => entry));
    for (const { entry, resolve } of batch) {
      if (!isOnDisk) this.#memoryOnly.push(entry);
      resolve();
    }
  }

  /** Writes entries to the current segment. Resolves with false if the disk cannot be written. */
  async #write(entries: readonly Entry[]): Promise<boolean> {
    try {
      if (this.#current !== null && this.#current.bytes >= segmentBytes) await this.#endCurrent();
      this.#current ??= new Segment(this.#folder, this.#nextSegment++);
      await appendTo(this.#current, entries);
      this.#noteFault(null);
      return true;
    } catch (cause) {
      if (this.#fault === null) await this.#takeBackDeleted();
      // The fault is reported without the path, because the path differs for each new segment.
      this.#noteFault(fileFaultOf(cause)?.cause ?? (cause instanceof Error ? cause.message : String(cause)));
      // The content of the segment after its last sync is unknown, so the next write begins a new segment.
      await this.#endCurrent().catch((err: unknown) => this.#log.debug({ err }, "a segment was not closed"));
      return false;
    }
  }

  /** Treats the entries of segments whose files were deleted as being only in memory. */
  async #takeBackDeleted(): Promise<void> {
    const open = this.#entries.slice(this.#first);
    const deleted = new Set<Segment>();
    for (const segment of new Set(open.map((entry) => entry.segment))) {
      if (segment !== null && !(await segment.isInPlace())) deleted.add(segment);
    }
    const takenBack = open.filter(({ segment }) => segment !== null && deleted.has(segment));
    for (const entry of takenBack) entry.segment = null;
    this.#memoryOnly = [...takenBack, ...this.#memoryOnly].sort((a, b) => a.number - b.number);
  }

  async #spill(folder: string): Promise<void> {
    const entries = this.#memoryOnly;
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const last = (await listSegments(folder)).at(-1)?.number ?? 0;
      const segment = new Segment(folder, last + 1);
      await appendTo(segment, entries);
      await segment.close();
      this.#memoryOnly = [];
      this.#log.warn(
        { settlements: entries.length, folder },
        "wrote usage to the spill folder: the data folder failed",
      );
    } catch (err) {
      this.#log.error({ err, folder }, "the spill folder cannot be written");
    }
  }

  async #endCurrent(): Promise<void> {
    const ended = this.#current;
    this.#current = null;
    if (ended?.bytes === 0) await ended.remove();
    else await ended?.close();
  }

  #noteFault(fault: string | null): void {
    if (fault === this.#fault) return;
    this.#fault = fault;
    if (fault === null) this.#log.info({}, "the spool can be written again");
    else this.#log.error({ fault }, `the spool cannot be written: up to ${memoryMax} settlements are kept in memory`);
  }

  #warnWhenFilling(): void {
    if (this.#hasWarned || this.size < warnShare * this.sizeMax) return;
    this.#hasWarned = true;
    this.#log.warn(
      { waiting: this.size, max: this.sizeMax },
      "the spool is filling up: the store does not accept usage",
    );
  }
}

async function appendTo(segment: Segment, entries: readonly Entry[]): Promise<void> {
  await segment.append(entries.map(({ settlement }) => toSpoolLine(settlement)).join(""));
  for (const entry of entries) entry.segment = segment;
}

/**
 * Name of this spool's folder in the spill folder. It is derived from the path of the data, so that several services can
 * share a spill folder.
 */
function spillName(folder: string): string {
  return createHash("sha256").update(resolve(folder)).digest("hex").slice(0, 16);
}
