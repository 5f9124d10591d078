import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, rename, rm, statfs } from "node:fs/promises";

/**
 * A source did not deliver the file: it is unreachable, refuses, does not answer or is disabled. The file itself may be valid,
 * so another source of the model may be tried. The message names the cause and a fix.
 */
export class SourceUnavailable extends Error {
  override readonly name = "SourceUnavailable";
  /** HTTP status of the refusal; null if there was no answer. */
  readonly status: number | null;
  /** The message without the fix if the source cannot be reached; null for other reasons. */
  readonly unreachable: string | null;

  constructor(message: string, options?: ErrorOptions & { status?: number; unreachable?: string }) {
    super(message, options);
    this.status = options?.status ?? null;
    this.unreachable = options?.unreachable ?? null;
  }
}

/** Fault of a file, or of the disk to which it is written. */
export type ModelFileFault =
  /** The file's SHA-256 or length is not the expected one. */
  | "checksum"
  /** The file is not valid in its format, or its header contradicts its content. */
  | "malformed"
  /** The file is valid, but this service cannot run it. */
  | "unsupported"
  /** The disk has less free space than the file needs. */
  | "no_space"
  /** There is no such file. */
  | "missing"
  /** A dashboard session may not use the file. */
  | "blocked";

/** A file cannot be used; the next source is not tried. The message names the cause and a fix. */
export class ModelFileError extends Error {
  override readonly name = "ModelFileError";
  readonly fault: ModelFileFault;

  constructor(fault: ModelFileFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
  }
}

/** Expected content of a file. SHA-256 in lower-case hex. */
export interface Pin {
  readonly sha256: string;
  readonly bytes?: number;
}

/** Measured content of a file. */
export type FileSum = Required<Pin>;

/** Adds the file's bytes to the hash and returns their number. Rejects with the signal's reason when it is aborted. */
export async function hashInto(hash: Hash, path: string, signal?: AbortSignal): Promise<number> {
  let bytes = 0;
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024, signal })) {
      hash.update(chunk);
      bytes += chunk.length;
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
  return bytes;
}

/** SHA-256 and length of the file. Rejects with the signal's reason when it is aborted. */
export async function sumFile(path: string, signal?: AbortSignal): Promise<FileSum> {
  const hash = createHash("sha256");
  const bytes = await hashInto(hash, path, signal);
  return { sha256: hash.digest("hex"), bytes };
}

/** Throws ModelFileError if the file differs from the pin; without a pin, every file is accepted. */
export function requirePin(what: string, sum: FileSum, pin: Pin | undefined): void {
  if (!pin || (sum.sha256 === pin.sha256 && sum.bytes === (pin.bytes ?? sum.bytes))) return;
  throw new ModelFileError(
    "checksum",
    `${what} is not the expected file: its SHA-256 is ${sum.sha256} (${sum.bytes} bytes), expected was ${pin.sha256}. ` +
      "It was changed on its way or at its source. If its publisher has replaced it, pull it with the sum that they name",
  );
}

/** Bytes that this user can still write to the folder's disk. */
export type FreeBytes = (folder: string) => Promise<number>;

export const freeBytesOf: FreeBytes = async (folder) => {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
};

/** Throws ModelFileError if the folder's disk has less free space than needed. */
export async function requireSpace(folder: string, neededBytes: number, freeBytes: FreeBytes): Promise<void> {
  const free = await freeBytes(folder);
  if (free < neededBytes) throw noSpace(folder, neededBytes, free);
}

/** Converts the error of a write to a full disk to ModelFileError and returns other errors unchanged. */
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

/** Replaces a file (mode 0600) atomically: readers, also after a crash, find the old content or the new one. */
export async function writeFileDurably(path: string, text: string): Promise<void> {
  const draft = `${path}.${process.pid}.new`;
  try {
    const file = await open(draft, "w", 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(draft, path);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}
