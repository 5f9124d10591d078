import { type FileHandle, open, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Threshold } from "../../domain/events/threshold.js";
import type { Settlement } from "../../domain/metering/ledger.js";
import { fromCheckedLine, toCheckedLine } from "../../lib/checked-line.js";

/**
 * One file of the spool. It only grows, and is deleted once all of it is settled. Its number is its position in the
 * order. Lines are acknowledged after a sync, so a crash can cut off the last lines only, none of them acknowledged.
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

  /** Resolves when the text is on the disk. After a failure the segment takes nothing more. */
  async append(text: string): Promise<void> {
    this.#file ??= await open(this.#path, "ax", 0o600);
    await this.#file.appendFile(text);
    await this.#file.datasync();
    this.#bytes += Buffer.byteLength(text);
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

/** Segments that an earlier process left, in their order; none where there is no folder. */
export async function listSegments(folder: string): Promise<readonly Segment[]> {
  const names = (await namesIn(folder)).filter((name) => nameForm.test(name)).sort();
  return names.map((name) => new Segment(folder, Number(nameForm.exec(name)?.[1])));
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  }
}

/** A threshold's limit may exceed what JSON numbers hold, so it is written as text. */
type StoredThreshold = Omit<Threshold, "limit"> & { readonly limit: string };
type StoredSettlement = Omit<Settlement, "thresholds"> & { readonly thresholds: readonly StoredThreshold[] };

/** One line of the spool, with its line break. */
export function toSpoolLine(settlement: Settlement): string {
  const thresholds = settlement.thresholds.map((threshold) => ({ ...threshold, limit: String(threshold.limit) }));
  return toCheckedLine(JSON.stringify({ ...settlement, thresholds } satisfies StoredSettlement));
}

/** Null for a damaged line. Version 0.1 wrote the JSON alone. */
export function fromSpoolLine(line: string): Settlement | null {
  const text = line.startsWith("{") ? line : fromCheckedLine(line);
  if (text === null) return null;
  try {
    const stored = JSON.parse(text) as StoredSettlement;
    if (typeof stored?.requestId !== "string") return null;
    return { ...stored, thresholds: stored.thresholds.map((each) => ({ ...each, limit: BigInt(each.limit) })) };
  } catch {
    return null;
  }
}
