import { createHash, randomUUID } from "node:crypto";
import { mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";

/**
 * Matches the work folder of a running pull. Each pull has its own below the models folder, with the name
 * `KEY.PID-MARK-COUNT.work` while it runs and `KEY.part` after an interruption that can be resumed. A process claims a
 * `.part` folder by renaming it, so two processes never write to one file.
 */
const claimedPattern = /^[0-9a-f]{16}\.(\d+)-([0-9a-f]{8})-\d+\.work$/;
const leftPattern = /^[0-9a-f]{16}\.part$/;

/** Distinguishes this process from an earlier one with the same process id, which is common in containers. */
const ownMark = randomUUID().slice(0, 8);
let claims = 0;

/** Age at which `.part` folders are removed. */
const leftAgeMaxMs = 7 * 24 * 3_600_000;

/** Claims the `.part` folder of an earlier pull of this source, or creates a folder. Returns its path. */
export async function claimWorkFolder(modelsFolder: string, source: string): Promise<string> {
  const key = createHash("sha256").update(source).digest("hex").slice(0, 16);
  claims += 1;
  const claimed = join(modelsFolder, `${key}.${process.pid}-${ownMark}-${claims}.work`);
  try {
    await rename(join(modelsFolder, `${key}.part`), claimed);
  } catch (error) {
    if (!isMissing(error)) throw error;
    await mkdir(claimed, { mode: 0o700 });
  }
  return claimed;
}

/** Renames a claimed folder to `.part`, so that a later pull resumes it. It is removed if it has no files or `.part` exists. */
export async function leaveWorkFolder(claimed: string): Promise<void> {
  const left = claimed.replace(/\.[^.]+\.work$/, ".part");
  const entries = await readdir(claimed, { recursive: true, withFileTypes: true });
  if (!entries.some((entry) => entry.isFile()) || (await stat(left).catch(() => null))) {
    await rm(claimed, { recursive: true, force: true });
    return;
  }
  await rename(claimed, left);
}

/** Called at start: releases the folders of processes that have ended, so that pulls resume them, and removes old ones. */
export async function tidyWorkFolders(modelsFolder: string, nowMs: number): Promise<void> {
  for (const name of await readdir(modelsFolder)) {
    const path = join(modelsFolder, name);
    const [, pid, mark] = claimedPattern.exec(name) ?? [];
    if (pid !== undefined && mark !== ownMark && !isAnotherRunning(Number(pid))) await leaveWorkFolder(path);
    if (leftPattern.test(name) && nowMs - (await stat(path)).mtimeMs > leftAgeMaxMs) {
      await rm(path, { recursive: true, force: true });
    }
  }
}

function isAnotherRunning(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
