/** Cause and remedy of an error of the file system. Both are parts of a sentence. */
interface FileFault {
  /** Path of the failed call; null where the system did not name it. */
  readonly path: string | null;
  readonly cause: string;
  readonly fix: string;
}

type Meaning = readonly [cause: string, fix: string];

const notOurs: Meaning = ["this user may not access it", "make the user of this process its owner"];
const notAFolder: Meaning = ["a file is where a folder is expected", "move the file away"];

/** Cause and remedy by the system's error code. */
const meanings: ReadonlyMap<string, Meaning> = new Map<string, Meaning>([
  ["ENOSPC", ["the disk is full", "free some space on it"]],
  ["EDQUOT", ["the disk quota is used up", "free some space, or raise the quota"]],
  ["EFBIG", ["the file may not grow any further", "raise the limit of file sizes (ulimit -f)"]],
  ["EROFS", ["the file system is read-only", "mount it writable"]],
  ["EIO", ["the disk reports an error", "check the disk and the log of the system"]],
  ["EACCES", notOurs],
  ["EPERM", notOurs],
  ["EISDIR", ["a folder is where a file is expected", "move the folder away"]],
  ["ENOTDIR", notAFolder],
  ["EEXIST", notAFolder],
  ["ELOOP", ["it is a link that leads to itself", "remove the link"]],
  ["ENAMETOOLONG", ["its path is too long", "choose a shorter one"]],
]);

interface SystemError extends Error {
  readonly code?: unknown;
  readonly path?: unknown;
  readonly dest?: unknown;
}

/** The meaning of an error of the file system; null for any other error. */
export function fileFaultOf(error: unknown): FileFault | null {
  if (!(error instanceof Error)) return null;
  const { code, path, dest } = error as SystemError;
  const meaning = typeof code === "string" ? meanings.get(code) : undefined;
  if (meaning === undefined) return null;
  // For a failed rename the destination is named, because the operator knows that path.
  const named = typeof dest === "string" ? dest : path;
  return { path: typeof named === "string" ? named : null, cause: meaning[0], fix: meaning[1] };
}
