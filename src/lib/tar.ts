import { createReadStream } from "node:fs";
import { type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createGunzip } from "node:zlib";

export interface TarBounds {
  /** Maximum number of files and folders. */
  readonly membersMax: number;
  /** Maximum size of all files together. */
  readonly bytesMax: number;
  /** Its abort stops the work; the promise rejects with its reason. */
  readonly signal: AbortSignal;
}

/** The archive is damaged, exceeds a bound, or has a member that is no plain file or folder. */
export class TarError extends Error {
  override readonly name = "TarError";
}

const blockBytes = 512;
const paxBytesMax = 65_536;

/**
 * Unpacks a gzip-compressed tar archive, as npm writes them, into an existing folder, without the first folder of each name.
 * Files get mode 0644, folders 0755. Links, devices and names that lead out of the folder are errors. Files that
 * were written before an error remain: the caller removes the folder.
 */
export async function unpackTarball(archive: string, folder: string, bounds: TarBounds): Promise<void> {
  const source = createReadStream(archive, { highWaterMark: 1 << 20 });
  const gunzip = createGunzip({ chunkSize: 1 << 18 });
  source.once("error", (error) => gunzip.destroy(error));
  const writer = new MemberWriter(folder, bounds);
  try {
    for await (const chunk of source.pipe(gunzip)) {
      bounds.signal.throwIfAborted();
      await writer.write(chunk as Buffer);
    }
    writer.end();
  } catch (error) {
    bounds.signal.throwIfAborted();
    const isDamaged = error instanceof Error && "code" in error && String(error.code).startsWith("Z_");
    throw isDamaged ? new TarError(`the archive is damaged: ${error.message}`, { cause: error }) : error;
  } finally {
    source.destroy();
    await writer.close();
  }
}

interface Member {
  /** File that gets the content; null if the content is skipped. */
  readonly file: FileHandle | null;
  /** Content that is kept in memory, because it contains attributes of the next member; null for other members. */
  readonly attributes: Buffer[] | null;
}

/** Reads the archive block by block. */
class MemberWriter {
  readonly #folder: string;
  readonly #bounds: TarBounds;
  #header: Buffer = Buffer.alloc(0);
  #member: Member | null = null;
  /** Bytes of the member's content that are still to come, and of the padding after it. */
  #left = 0;
  #padding = 0;
  #members = 0;
  #bytes = 0;
  #nextPath: string | null = null;
  #isOver = false;

  constructor(folder: string, bounds: TarBounds) {
    this.#folder = folder;
    this.#bounds = bounds;
  }

  async write(chunk: Buffer): Promise<void> {
    for (let rest = chunk; rest.length > 0 && !this.#isOver; ) rest = rest.subarray(await this.#take(rest));
  }

  /** Returns how many bytes were used. */
  async #take(rest: Buffer): Promise<number> {
    if (this.#left > 0) {
      const part = rest.subarray(0, this.#left);
      this.#left -= part.length;
      await this.#member?.file?.writeFile(part);
      this.#member?.attributes?.push(Buffer.from(part));
      if (this.#left === 0) await this.#endMember();
      return part.length;
    }
    if (this.#padding > 0) {
      const skipped = Math.min(this.#padding, rest.length);
      this.#padding -= skipped;
      return skipped;
    }
    const used = Math.min(rest.length, blockBytes - this.#header.length);
    this.#header = Buffer.concat([this.#header, rest.subarray(0, used)]);
    if (this.#header.length === blockBytes) {
      const header = this.#header;
      this.#header = Buffer.alloc(0);
      await this.#begin(header);
    }
    return used;
  }

  async #begin(header: Buffer): Promise<void> {
    // The end of the archive.
    if (header.every((byte) => byte === 0)) {
      this.#isOver = true;
      return;
    }
    requireChecksum(header);
    const size = octal(header, 124, 12);
    const type = String.fromCharCode(header[156] ?? 0);
    this.#members += 1;
    if (this.#members > this.#bounds.membersMax) throw new TarError(`more than ${this.#bounds.membersMax} members`);
    this.#left = size;
    this.#padding = (blockBytes - (size % blockBytes)) % blockBytes;
    this.#member = await this.#open(header, type, size);
    if (size === 0) await this.#endMember();
  }

  async #open(header: Buffer, type: string, size: number): Promise<Member> {
    if (type === "x" || type === "g") {
      if (size > paxBytesMax) throw new TarError("attributes that are too long");
      return { file: null, attributes: type === "x" ? [] : null };
    }
    const name = this.#nextPath ?? nameOf(header);
    this.#nextPath = null;
    if (type === "5") return { file: null, attributes: null };
    if (type !== "0" && type !== "\0") throw new TarError(`the member ${name} is not a plain file`);
    this.#bytes += size;
    if (this.#bytes > this.#bounds.bytesMax) throw new TarError(`more than ${this.#bounds.bytesMax} bytes`);
    const path = join(this.#folder, ...innerPath(name));
    await mkdir(dirname(path), { recursive: true, mode: 0o755 });
    return { file: await open(path, "wx", 0o644), attributes: null };
  }

  async #endMember(): Promise<void> {
    const { file, attributes } = this.#member ?? {};
    this.#member = null;
    await file?.close();
    if (attributes) this.#nextPath = /^\d+ path=(.*)$/m.exec(Buffer.concat(attributes).toString())?.[1] ?? null;
  }

  /** Throws unless the archive was complete. */
  end(): void {
    if (!this.#isOver) throw new TarError("the archive ends too early");
  }

  async close(): Promise<void> {
    await this.#member?.file?.close();
    this.#member = null;
  }
}

function textAt(header: Buffer, from: number, length: number): string {
  const field = header.subarray(from, from + length);
  const end = field.indexOf(0);
  return field.subarray(0, end === -1 ? length : end).toString();
}

function octal(header: Buffer, from: number, length: number): number {
  const text = textAt(header, from, length).trim();
  if (!/^[0-7]{1,12}$/.test(text)) throw new TarError("a header with an invalid number");
  return Number.parseInt(text, 8);
}

function requireChecksum(header: Buffer): void {
  const expected = octal(header, 148, 8);
  // The checksum is computed as if its own field consisted of spaces.
  let sum = 0;
  for (const [i, byte] of header.entries()) sum += i >= 148 && i < 156 ? 32 : byte;
  if (sum !== expected) throw new TarError("a header with a wrong checksum");
}

function nameOf(header: Buffer): string {
  const prefix = textAt(header, 257, 5) === "ustar" ? textAt(header, 345, 155) : "";
  const name = textAt(header, 0, 100);
  return prefix === "" ? name : `${prefix}/${name}`;
}

/** The segments of a name below its first folder. */
function innerPath(name: string): readonly string[] {
  const segments = name.split("/").slice(1);
  const isSafe = (segment: string) => !/^\.{0,2}$|[\\:\0]/.test(segment);
  if (segments.length === 0 || !segments.every(isSafe)) throw new TarError(`the member name ${name} is not allowed`);
  return segments;
}
