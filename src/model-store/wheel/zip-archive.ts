import { createWriteStream } from "node:fs";
import { dirname } from "node:path";
import { pipeline } from "node:stream/promises";
import { type Entry, openPromise, type ZipFile } from "yauzl";
import { asNoSpace, type FreeBytes, requireSpace } from "../free-space.js";
import { ModelFileError } from "../model-errors.js";

const entriesMax = 65_536;

/**
 * A zip file, such as a wheel. Members are asked for by name and go where the caller says: no name in the file ever
 * becomes a path. Errors of the file are ModelFileError.
 */
export class ZipArchive {
  readonly #zip: ZipFile;
  readonly #entries: ReadonlyMap<string, Entry>;

  private constructor(zip: ZipFile, entries: ReadonlyMap<string, Entry>) {
    this.#zip = zip;
    this.#entries = entries;
  }

  /** The caller closes it. */
  static async open(path: string): Promise<ZipArchive> {
    const zip = await openPromise(path, { lazyEntries: true, autoClose: false }).catch((cause: unknown) => {
      throw malformed(cause);
    });
    try {
      return new ZipArchive(zip, await readEntries(zip));
    } catch (cause) {
      zip.close();
      throw malformed(cause);
    }
  }

  names(): string[] {
    return [...this.#entries.keys()];
  }

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  /** Writes one member, of the length that the zip file announces and no longer, to the path (mode 0600). */
  async extract(name: string, to: string, freeBytes: FreeBytes, signal: AbortSignal): Promise<void> {
    const entry = this.#entries.get(name);
    if (!entry) throw new ModelFileError("missing", `there is no ${name} in the archive: check the name`);
    await requireSpace(dirname(to), entry.uncompressedSize, freeBytes);
    try {
      const content = await this.#zip.openReadStreamPromise(entry);
      await pipeline(content, createWriteStream(to, { mode: 0o600 }), { signal });
    } catch (error) {
      signal.throwIfAborted();
      const known = asNoSpace(error, dirname(to), entry.uncompressedSize);
      throw known instanceof ModelFileError ? known : malformed(error);
    }
  }

  close(): void {
    this.#zip.close();
  }
}

async function readEntries(zip: ZipFile): Promise<Map<string, Entry>> {
  const entries = new Map<string, Entry>();
  for await (const entry of zip.eachEntry()) {
    entries.set(entry.fileName, entry);
    if (entries.size > entriesMax) throw new Error(`it has more than ${entriesMax} members`);
  }
  return entries;
}

function malformed(cause: unknown): ModelFileError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ModelFileError("malformed", `this is no sound zip file or wheel: ${why}. Fetch it again`, { cause });
}
