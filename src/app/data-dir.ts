import { access, chmod, constants, mkdir, readdir, stat } from "node:fs/promises";
import { StartError } from "./start-error.js";

const ownerOnly = 0o700;

/**
 * Makes sure that the data folder exists and can be written. A new or empty one becomes the owner's alone; one with
 * other files in it keeps its mode, for it may have another use.
 */
export async function openDataDir(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: ownerOnly });
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
    if ((await readdir(path)).length === 0) await chmod(path, ownerOnly);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StartError(
      `the data folder ${path} cannot be used: ${reason}`,
      "give it to the user that runs this, or choose another with --data-dir (UIS_DATA_DIR)",
      { cause },
    );
  }
}

/** Whether people other than the owner can look into the folder; false when it does not exist. */
export async function isOpenToOthers(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  return found !== null && (found.mode & 0o077) !== 0;
}
