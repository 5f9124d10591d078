import { createHash, randomUUID } from "node:crypto";
import { mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";

/**
 * Each pull works in a folder of its own below the models folder. While it runs the folder is called
 * `KEY.PID-MARK-COUNT.work`; when it is left with something to go on from, `KEY.part`. Renaming is how a process claims what
 * another has left, so two of them never write to one file.
 */
const claimedPattern = /^[0-9a-f]{16}\.(\d+)-([0-9a-f]{8})-\d+\.work$/;
const leftPattern = /^[0-9a-f]{16}\.part$/;

/** Tells this process from an earlier one of the same number, as containers have them. */
const ownMark = randomUUID().slice(0, 8);
let claims = 0;

/** What was left is thrown away after this time. */
const leftAgeMaxMs = 7 * 24 * 3_600_000;

/** Claims the folder that an earlier pull of this source left, or makes one. Returns its path. */
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

/** Leaves a claimed folder for a later pull to go on from. One without files, or a second one, is removed. */
export async function leaveWorkFolder(claimed: string): Promise<void> {
  const left = claimed.replace(/\.[^.]+\.work$/, ".part");
  const entries = await readdir(claimed, { recursive: true, withFileTypes: true });
  if (!entries.some((entry) => entry.isFile()) || (await stat(left).catch(() => null))) {
    await rm(claimed, { recursive: true, force: true });
    return;
  }
  await rename(claimed, left);
}

/** At start: takes over what processes that have died were working on, and removes what has lain too long. */
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
