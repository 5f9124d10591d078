import { randomBytes } from "node:crypto";
import { access, chmod, constants, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { StartError } from "./lifecycle.js";

/** Names inside of the data folder. Commands on the same machine read these files. */
const tokenFile = "admin.token";
const serviceFile = "service.json";

interface AdminTokenFile {
  /** Valid as long as this process runs. */
  readonly token: string;
  /** Removes the file, unless another process has written its own since. */
  remove(): Promise<void>;
}

/** A fresh credential of the administrator. 256 bits, printable. */
export function newAdminToken(): string {
  return `uis-admin-${randomBytes(32).toString("base64url")}`;
}

/** Writes the token where `uis` commands find it, readable by the owner only. */
export async function writeAdminToken(dataDir: string, token: string): Promise<AdminTokenFile> {
  await writeWhole(join(dataDir, tokenFile), `${token}\n`);
  return {
    token,
    async remove() {
      if ((await readAdminToken(dataDir)) === token) await rm(join(dataDir, tokenFile), { force: true });
    },
  };
}

/** The token of the service that runs on this data folder; null when there is none that this user may read. */
export async function readAdminToken(dataDir: string): Promise<string | null> {
  try {
    return (await readFile(join(dataDir, tokenFile), "utf8")).trim();
  } catch {
    // Absent or not ours: the caller says what to do instead.
    return null;
  }
}

const runningService = z.object({ url: z.url(), grpc: z.string(), ops: z.string(), pid: z.number().int().positive() });

/** Where a service listens, and its process. The field names are a file format. */
type RunningServiceFile = z.output<typeof runningService>;

/** Writes where the service listens. The returned function removes the file, unless another process has replaced it. */
export async function writeServiceFile(dataDir: string, running: RunningServiceFile): Promise<() => Promise<void>> {
  const file = join(dataDir, serviceFile);
  await writeWhole(file, `${JSON.stringify(running)}\n`);
  return async () => {
    if ((await readServiceFile(dataDir))?.pid === running.pid) await rm(file, { force: true });
  };
}

/** The service that runs on this data folder; null without one. The file of a process that was killed does not count. */
export async function readServiceFile(dataDir: string): Promise<RunningServiceFile | null> {
  const text = await readFile(join(dataDir, serviceFile), "utf8").catch(() => null);
  if (text === null) return null;
  try {
    const running = runningService.parse(JSON.parse(text));
    return isRunning(running.pid) ? running : null;
  } catch {
    // Another program's file, or that of a version to come: it names no service that this one can ask.
    return null;
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}

/** The file appears whole or not at all, readable by the owner only. */
async function writeWhole(file: string, text: string): Promise<void> {
  const unfinished = `${file}.${process.pid}.tmp`;
  await writeFile(unfinished, text, { mode: 0o600 });
  await rename(unfinished, file);
}

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
