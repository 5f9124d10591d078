import { createHash, type Hash } from "node:crypto";
import { type FileHandle, open, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { hashInto } from "../files/file-checks.js";

/** What has arrived of a file that is not complete, as `NAME.part`, and the version it is of, as `NAME.etag`. */
export class PartFile {
  readonly #path: string;

  /** `path` is that of the complete file. */
  constructor(path: string) {
    this.#path = path;
  }

  /** Bytes that are there. */
  async bytes(): Promise<number> {
    const found = await stat(this.#partPath).catch(ignoreMissing);
    return found?.size ?? 0;
  }

  /** The strong entity tag of the version that the bytes are of; null when the server gave none. */
  async version(): Promise<string | null> {
    return (await readFile(this.#versionPath, "utf8").catch(ignoreMissing)) ?? null;
  }

  /** The hash of the bytes that are there, to be gone on with. */
  async hash(signal: AbortSignal): Promise<Hash> {
    const hash = createHash("sha256");
    await hashInto(hash, this.#partPath, signal);
    return hash;
  }

  /** Opens the file at its end. The caller closes it. */
  append(): Promise<FileHandle> {
    return open(this.#partPath, "a", 0o600);
  }

  /** Throws away what is there and opens the file for a new version. The caller closes it. */
  async restart(version: string | null): Promise<FileHandle> {
    await this.discard();
    if (version !== null) await writeFile(this.#versionPath, version, { mode: 0o600 });
    return open(this.#partPath, "w", 0o600);
  }

  /** The file is complete: it takes its name. */
  async complete(): Promise<void> {
    await rename(this.#partPath, this.#path);
    await rm(this.#versionPath, { force: true });
  }

  async discard(): Promise<void> {
    await rm(this.#partPath, { force: true });
    await rm(this.#versionPath, { force: true });
  }

  get #partPath(): string {
    return `${this.#path}.part`;
  }

  get #versionPath(): string {
    return `${this.#path}.etag`;
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): null {
  if (error.code === "ENOENT") return null;
  throw error;
}
