import { type FileHandle, open, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";

/**
 * One file of the spool, which only grows and is deleted when all of it is settled. Its number is its place in the
 * order. Lines are acknowledged after a sync, so a crash can cut the last lines off, but none that was acknowledged.
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

  /** Whole lines, without their breaks. */
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

/** Segments that an earlier process left, in their order. */
export async function listSegments(folder: string): Promise<readonly Segment[]> {
  const names = (await readdir(folder)).filter((name) => nameForm.test(name)).sort();
  return names.map((name) => new Segment(folder, Number(nameForm.exec(name)?.[1])));
}
