/**
 * Settlements that wait for the store, in files of the data folder (USE-11). Those that come while the disk syncs wait
 * together and are written with one sync. What waits is in memory too, so that replaying reads no file but after a
 * restart. Without a disk that can be written, up to 10,000 are kept in memory alone.
 */
import { mkdir } from "node:fs/promises";
import type { Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { Settlement } from "../../domain/metering/ledger.js";
import type { SettlementSpool, SpooledSettlement, SpoolPlace } from "../../domain/metering/spool.js";
import { listSegments, Segment } from "./segment.js";
import { fromSpoolLine, toSpoolLine } from "./spool-line.js";

/** When a segment has this many bytes, the next one is begun, so that settled ones can be deleted. */
const segmentBytes = 4 * 1024 * 1024;
/** Kept in memory alone when the disk cannot be written. */
const memoryMax = 10_000;
/** From here on the log says that the spool fills up. */
const warnShare = 0.8;

export interface FileSpoolOptions {
  /** Made when it is not there. */
  readonly folder: string;
  /** Settlements that may wait. */
  readonly sizeMax: number;
  readonly log: Logger;
}

interface Entry {
  readonly settlement: Settlement;
  /** Counts up over the life of the spool. */
  readonly number: number;
  /** Null: in memory alone. */
  segment: Segment | null;
}

interface Waiting {
  readonly entry: Entry;
  readonly line: string;
  resolve(): void;
}

export class FileSpool implements SettlementSpool {
  readonly #sizeMax: number;
  readonly #folder: string;
  readonly #log: Logger;
  /** In the order of their numbers; those before `#first` are settled. */
  #entries: Entry[] = [];
  #first = 0;
  #nextNumber = 1;
  #nextSegment = 1;
  #current: Segment | null = null;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | null = null;
  #inMemory = 0;
  #hasWarned = false;
  #diskFault: string | null = null;

  /** Takes over what an earlier process left. Rejects when the folder cannot be read. */
  static async open(options: FileSpoolOptions): Promise<FileSpool> {
    const spool = new FileSpool(options);
    await mkdir(options.folder, { recursive: true, mode: 0o700 });
    for (const segment of await listSegments(options.folder)) await spool.#takeOver(segment);
    return spool;
  }

  private constructor({ folder, sizeMax, log }: FileSpoolOptions) {
    this.#folder = folder;
    this.#sizeMax = sizeMax;
    this.#log = log;
  }

  get size(): number {
    return this.#entries.length - this.#first;
  }

  /** Without a disk that can be written, only as many more as memory takes. */
  get sizeMax(): number {
    if (this.#diskFault === null) return this.#sizeMax;
    return Math.min(this.#sizeMax, this.size - this.#inMemory + memoryMax);
  }

  get oldestAtMs(): number | null {
    return this.#entries[this.#first]?.settlement.endedAtMs ?? null;
  }

  append(settlement: Settlement): Promise<void> {
    if (this.size >= this.#sizeMax) return Promise.reject(isFull(`${this.#sizeMax} ends of requests wait`));
    if (this.size >= this.sizeMax) {
      return Promise.reject(isFull(`${memoryMax} wait in memory, because the spool cannot be written`));
    }
    const entry: Entry = { settlement, number: this.#nextNumber++, segment: null };
    this.#entries.push(entry);
    this.#warnWhenFilling();
    return new Promise((resolve) => {
      this.#waiting.push({ entry, line: toSpoolLine(settlement), resolve });
      this.#startWriting();
    });
  }

  async oldest(max: number): Promise<readonly SpooledSettlement[]> {
    const oldest = this.#entries.slice(this.#first, this.#first + max);
    return oldest.map(({ settlement, number }) => ({ settlement, end: String(number) }));
  }

  async release(place: SpoolPlace): Promise<void> {
    const until = Number(place);
    // An entry that is still being written is settled, too; its segment must know before it is deleted.
    while (this.#writing !== null) await this.#writing;
    const settled: Segment[] = [];
    for (let entry = this.#entries[this.#first]; entry !== undefined && entry.number <= until; ) {
      if (entry.segment === null) this.#inMemory -= 1;
      else if (settled.at(-1) !== entry.segment) settled.push(entry.segment);
      this.#first += 1;
      entry = this.#entries[this.#first];
    }
    const stillUsed = this.#entries[this.#first]?.segment ?? null;
    for (const segment of settled) if (segment !== stillUsed) await this.#drop(segment);
    this.#forgetSettled();
  }

  async close(): Promise<void> {
    while (this.#writing !== null) await this.#writing;
    await this.#current?.close();
  }

  async #takeOver(segment: Segment): Promise<void> {
    this.#nextSegment = segment.number + 1;
    const lines = await segment.readLines();
    let broken = 0;
    for (const line of lines) {
      const settlement = fromSpoolLine(line);
      if (settlement === null) broken += 1;
      else this.#entries.push({ settlement, number: this.#nextNumber++, segment });
    }
    if (broken > 0) this.#log.error({ segment: segment.number, lines: broken }, "lines of the spool cannot be read");
    if (lines.length === broken) await segment.remove();
  }

  /** One batch at a time; what comes meanwhile is the next. */
  #startWriting(): void {
    if (this.#writing !== null || this.#waiting.length === 0) return;
    this.#writing = this.#writeBatch(this.#waiting.splice(0)).then(() => {
      this.#writing = null;
      this.#startWriting();
    });
  }

  async #writeBatch(batch: readonly Waiting[]): Promise<void> {
    const segment = await this.#write(batch.map(({ line }) => line).join(""));
    for (const { entry, resolve } of batch) {
      entry.segment = segment;
      if (segment === null) this.#inMemory += 1;
      resolve();
    }
  }

  /** The segment that has it; null when the disk cannot be written. */
  async #write(text: string): Promise<Segment | null> {
    try {
      if (this.#current !== null && this.#current.bytes >= segmentBytes) await this.#endCurrent();
      this.#current ??= new Segment(this.#folder, this.#nextSegment++);
      await this.#current.append(text);
      this.#noteDisk(null);
      return this.#current;
    } catch (cause) {
      this.#noteDisk(cause instanceof Error ? cause.message : String(cause));
      // What it has beyond the last sync is not known: the next write begins a new one.
      await this.#endCurrent().catch(() => {});
      return null;
    }
  }

  async #endCurrent(): Promise<void> {
    const ended = this.#current;
    this.#current = null;
    await ended?.close();
  }

  async #drop(segment: Segment): Promise<void> {
    if (segment === this.#current) this.#current = null;
    await segment.remove();
  }

  /** The settled ones before `#first` are let go in large steps: shifting an array by one each time costs its length. */
  #forgetSettled(): void {
    if (this.#first < 1_000 && this.#first < this.#entries.length) return;
    this.#entries = this.#entries.slice(this.#first);
    this.#first = 0;
    this.#hasWarned = false;
  }

  #noteDisk(fault: string | null): void {
    if (fault === this.#diskFault) return;
    this.#diskFault = fault;
    if (fault === null) this.#log.info({}, "the spool can be written again");
    else this.#log.error({ fault }, `the spool cannot be written: up to ${memoryMax} settlements are kept in memory`);
  }

  #warnWhenFilling(): void {
    if (this.#hasWarned || this.size < warnShare * this.sizeMax) return;
    this.#hasWarned = true;
    this.#log.warn(
      { waiting: this.size, max: this.sizeMax },
      "the spool is filling up: the store has been away for long",
    );
  }
}

function isFull(why: string): ServiceError {
  return new ServiceError("storage_unavailable", `The end of the request cannot be kept: ${why}.`);
}
