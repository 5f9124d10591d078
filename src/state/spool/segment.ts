import { type FileHandle, open, readdir, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Settlement } from "../../domain/metering/ledger.js";
import { fromCheckedLine, toCheckedLine } from "../../lib/crypto.js";

/**
 * One file of the spool, deleted once all its lines are settled. Its number is its position in the order. Lines are
 * acknowledged after a sync, so a crash can cut off only the last, unacknowledged lines.
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

  /** Resolves when the text is on the disk. After a failure the segment is not used again. */
  async append(text: string): Promise<void> {
    this.#file ??= await open(this.#path, "ax", 0o600);
    await this.#file.appendFile(text);
    await this.#file.datasync();
    // A file that was deleted takes writes, and no later start finds them.
    if (!(await this.isInPlace())) throw new Error("its file was deleted");
    this.#bytes += Buffer.byteLength(text);
  }

  /** False: the file was deleted. A moved one that is open counts as in place. */
  async isInPlace(): Promise<boolean> {
    try {
      return (await (this.#file === null ? stat(this.#path) : this.#file.stat())).nlink > 0;
    } catch {
      return false;
    }
  }

  /** Whole lines, without their line breaks. */
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

/** Segments of an earlier process, in their order; none without a folder. */
export async function listSegments(folder: string): Promise<readonly Segment[]> {
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  const segments = names.filter((name) => nameForm.test(name)).sort();
  return segments.map((name) => new Segment(folder, Number(nameForm.exec(name)?.[1])));
}

/** One line of the spool, with its line break. A threshold's limit is text, because it may exceed a JSON number. */
export function toSpoolLine(settlement: Settlement): string {
  const thresholds = settlement.thresholds.map((threshold) => ({ ...threshold, limit: String(threshold.limit) }));
  return toCheckedLine(JSON.stringify({ ...settlement, thresholds }));
}

/** Null for a damaged line. Version 0.1 wrote the JSON alone. */
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
