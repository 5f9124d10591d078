import type { FileHandle } from "node:fs/promises";
import { ModelFileError } from "../files/model-files.js";

/** Bytes of one read: few enough that parsing between two reads never blocks the event loop for long. */
const chunkBytes = 256 * 1024;

/** Maximum length of a header. Headers with the largest vocabularies have about 20 MiB. */
const headerBytesMax = 128 * 1024 * 1024;

/** Reads the header of a file from its start, a chunk at a time. Reading beyond its bounds throws ModelFileError. */
export class FileCursor {
  readonly #file: FileHandle;
  readonly #end: number;
  #chunk = Buffer.alloc(0);
  #chunkStart = 0;
  #at = 0;

  constructor(file: FileHandle, fileBytes: number) {
    this.#file = file;
    this.#end = Math.min(fileBytes, headerBytesMax);
  }

  /** Position in bytes from the start of the file. */
  get position(): number {
    return this.#chunkStart + this.#at;
  }

  /** The next bytes as a view that is valid until the next call. */
  async view(length: number): Promise<DataView> {
    const bytes = await this.#take(length);
    return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  async uint32(): Promise<number> {
    return (await this.view(4)).getUint32(0, true);
  }

  /** Reads a 64-bit count or length. Throws ModelFileError above 2^53 - 1, which exceeds every bound of a header. */
  async uint64(): Promise<number> {
    const value = (await this.view(8)).getBigUint64(0, true);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw malformedGguf(`it claims a count or a size of ${value}`);
    return Number(value);
  }

  /** Reads a string, which its length precedes. */
  async text(bytesMax: number): Promise<string> {
    const length = await this.uint64();
    if (length > bytesMax) throw tooLong(bytesMax);
    return (await this.#take(length)).toString("utf8");
  }

  /** Skips bytes without reading them. */
  skip(length: number): void {
    if (length > this.#end - this.position) throw cutShort();
    this.#at += length;
    if (this.#at <= this.#chunk.length) return;
    this.#chunkStart = this.position;
    this.#chunk = Buffer.alloc(0);
    this.#at = 0;
  }

  /** Skips `count` strings. It awaits only at the end of a chunk: vocabularies have hundreds of thousands of strings. */
  async skipTexts(count: number, bytesMax: number): Promise<void> {
    for (let index = 0; index < count; index += 1) {
      if (this.#chunk.length - this.#at < 8) await this.#refill(8);
      const length = this.#chunk.readUInt32LE(this.#at);
      if (length > bytesMax || this.#chunk.readUInt32LE(this.#at + 4) !== 0) throw tooLong(bytesMax);
      this.#at += 8;
      this.skip(length);
    }
  }

  async #take(length: number): Promise<Buffer> {
    if (this.#chunk.length - this.#at < length) await this.#refill(length);
    const bytes = this.#chunk.subarray(this.#at, this.#at + length);
    this.#at += length;
    return bytes;
  }

  async #refill(length: number): Promise<void> {
    const start = this.position;
    const wanted = Math.min(Math.max(chunkBytes, length), this.#end - start);
    if (wanted < length) throw cutShort();
    const bytes = Buffer.alloc(wanted);
    const { bytesRead } = await this.#file.read(bytes, 0, wanted, start);
    if (bytesRead < length) throw cutShort();
    this.#chunk = bytes.subarray(0, bytesRead);
    this.#chunkStart = start;
    this.#at = 0;
  }
}

/** The error of a GGUF file whose header contradicts its content. */
export function malformedGguf(why: string): ModelFileError {
  return new ModelFileError(
    "malformed",
    `this is not a valid GGUF file: ${why}. Fetch it again, or from another place`,
  );
}

const cutShort = () => malformedGguf(`its header goes beyond the end of the file, or beyond ${headerBytesMax} bytes`);
const tooLong = (bytesMax: number) => malformedGguf(`a text in it is longer than ${bytesMax} bytes`);
