import { type FileHandle, open, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Settlement } from "../../domain/metering/ledger.js";
import { fromCheckedLine, toCheckedLine } from "../../lib/crypto.js";

/**
 * One file of the spool, deleted once all its lines are stored. Its number is its position in the order of the files. Lines
 * are acknowledged after a sync, so a crash can lose only the last lines, which are not acknowledged.
 */
export class Segment {
  readonly number: number;
  readonly #path: string;
  #file: FileHandle | null = null;
  #bytes = 0;

  constructor(folder: string, number: number) {
    this.number = number;
    this.#path = join(folder, `${String(number).padStart(12, "0")}.jsonl`);
  }

  /** Acknowledged bytes that this process wrote. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Appends lines. Resolves when they are synced to the disk. After a failure the segment is not used again. */
  async append(text: string): Promise<void> {
    this.#file ??= await open(this.#path, "ax", 0o600);
    await this.#file.appendFile(text);
    await this.#file.datasync();
    // A write into an open file that was deleted succeeds, but no later start finds its lines.
    if (!(await this.isInPlace())) throw new Error("its file was deleted");
    this.#bytes += Buffer.byteLength(text);
  }

  /** Returns false if the file was deleted. An open file that was moved counts as in place. */
  async isInPlace(): Promise<boolean> {
    try {
      return (await (this.#file === null ? stat(this.#path) : this.#file.stat())).nlink > 0;
    } catch {
      return false;
    }
  }

  /** Reads all complete lines, without their line breaks. */
  async readLines(): Promise<readonly string[]> {
    const text = await readFile(this.#path, "utf8");
    return text.split("\n").slice(0, -1);
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = null;
  }

  async remove(): Promise<void> {
    await this.close();
    await rm(this.#path, { force: true });
  }
}

const nameForm = /^(\d{12})\.jsonl$/;

/** Segments of an earlier process, in their order. Returns an empty list if the folder does not exist. */
export async function listSegments(folder: string): Promise<readonly Segment[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  const segments = names.filter((name) => nameForm.test(name)).sort();
  return segments.map((name) => new Segment(folder, Number(nameForm.exec(name)?.[1])));
}

/**
 * One line of the spool, with its line break. The limit of a threshold is written as text, because it may exceed the
 * precision of a JSON number.
 */
export function toSpoolLine(settlement: Settlement): string {
  const thresholds = settlement.thresholds.map((threshold) => ({ ...threshold, limit: String(threshold.limit) }));
  return toCheckedLine(JSON.stringify({ ...settlement, thresholds }));
}

/** Parses a line; null if it is damaged. Version 0.1 wrote only the JSON, without a checksum. */
export function fromSpoolLine(line: string): Settlement | null {
  const text = line.startsWith("{") ? line : fromCheckedLine(line);
  if (text === null) return null;
  try {
    const stored = JSON.parse(text) as Settlement;
    if (typeof stored?.requestId !== "string") return null;
    return { ...stored, thresholds: stored.thresholds.map((each) => ({ ...each, limit: BigInt(each.limit) })) };
  } catch {
    return null;
  }
}
