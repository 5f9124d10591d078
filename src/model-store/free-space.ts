import { statfs } from "node:fs/promises";
import { ModelFileError } from "./model-errors.js";

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
