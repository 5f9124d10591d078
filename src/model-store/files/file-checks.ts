import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { statfs } from "node:fs/promises";
import { ModelFileError } from "./model-errors.js";

/** What a file ought to be. SHA-256 in lower-case hex. */
export interface Pin {
  readonly sha256: string;
  readonly bytes?: number;
}

/** What a file is. */
export interface FileSum {
  readonly sha256: string;
  readonly bytes: number;
}

/** Reads the file, adds its bytes to the hash and returns how many there were. */
export async function hashInto(hash: Hash, path: string, signal?: AbortSignal): Promise<number> {
  let bytes = 0;
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024, signal })) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  return bytes;
}

/** SHA-256 and length of the file. Rejects with the signal's reason when that ends first. */
export async function sumFile(path: string, signal?: AbortSignal): Promise<FileSum> {
  const hash = createHash("sha256");
  try {
    const bytes = await hashInto(hash, path, signal);
    return { sha256: hash.digest("hex"), bytes };
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/** Throws ModelFileError unless the file is the expected one; no pin expects nothing. */
export function requirePin(what: string, sum: FileSum, pin: Pin | undefined): void {
  if (!pin || (sum.sha256 === pin.sha256 && sum.bytes === (pin.bytes ?? sum.bytes))) return;
  throw new ModelFileError(
    "checksum",
    `${what} is not the expected file: its SHA-256 is ${sum.sha256} (${sum.bytes} bytes), expected was ${pin.sha256}. ` +
      "It was changed on its way or at its source. If its publisher has replaced it, pull it with the sum that they name",
  );
}

/** Bytes that the folder's disk has left for this user. */
export type FreeBytes = (folder: string) => Promise<number>;

export const freeBytesOf: FreeBytes = async (folder) => {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
};

/** Throws ModelFileError when the folder's disk has less room than needed. */
export async function requireSpace(folder: string, neededBytes: number, freeBytes: FreeBytes): Promise<void> {
  const free = await freeBytes(folder);
  if (free < neededBytes) throw noSpace(folder, neededBytes, free);
}

/** Turns "no space left" of a write into ModelFileError and leaves other errors as they are. */
export function asNoSpace(error: unknown, folder: string, neededBytes: number): unknown {
  const isFull = error instanceof Error && "code" in error && (error.code === "ENOSPC" || error.code === "EDQUOT");
  return isFull ? noSpace(folder, neededBytes, 0, error) : error;
}

function noSpace(folder: string, neededBytes: number, free: number, cause?: unknown): ModelFileError {
  return new ModelFileError(
    "no_space",
    `${neededBytes} bytes are needed in ${folder}, and ${free} are free: make room, or choose another --data-dir`,
    { cause },
  );
}
