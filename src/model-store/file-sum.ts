import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
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
