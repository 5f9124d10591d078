import { randomBytes } from "node:crypto";
import type { Stats } from "node:fs";
import { access, chmod, constants, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { errorText } from "../../lib/display-text.js";
import { fileFaultOf } from "../../lib/file-faults.js";
import { StartError } from "./lifecycle.js";

/** Files in the data folder that commands on the same machine read. */
const tokenFile = "admin.token";
const serviceFile = "service.json";

/** A new random credential of the administrator, 256 bits. */
export function newAdminToken(): string {
  return `uis-admin-${randomBytes(32).toString("base64url")}`;
}

/**
 * Writes the token for `uis` commands, readable only by the owner. The returned function removes the file unless another
 * process has replaced it.
 */
export async function writeAdminToken(dataDir: string, token: string): Promise<() => Promise<void>> {
  const file = join(dataDir, tokenFile);
  await writeWhole(file, `${token}\n`);
  return async () => {
    if ((await readAdminToken(dataDir)) === token) await rm(file, { force: true });
  };
}

/** The token of the service that uses this data folder; null if there is none that this user may read. */
export async function readAdminToken(dataDir: string): Promise<string | null> {
  try {
    return (await readFile(join(dataDir, tokenFile), "utf8")).trim();
  } catch {
    // Absent or not readable: the caller explains what to do.
    return null;
  }
}

const runningService = z.object({ url: z.url(), grpc: z.string(), ops: z.string(), pid: z.number().int().positive() });

/** Addresses and process of a service. The field names are those of service.json. */
type RunningServiceFile = z.output<typeof runningService>;

/** Writes service.json. The returned function removes it unless another process has replaced it. */
export async function writeServiceFile(dataDir: string, running: RunningServiceFile): Promise<() => Promise<void>> {
  const file = join(dataDir, serviceFile);
  await writeWhole(file, `${JSON.stringify(running)}\n`);
  return async () => {
    if ((await readServiceFile(dataDir))?.pid === running.pid) await rm(file, { force: true });
  };
}

/** Writes the files with which commands find a running service. The returned functions remove them. */
export async function announce(
  dataDir: string,
  token: string,
  { http: url, grpc, ops }: { readonly http: string; readonly grpc: string; readonly ops: string },
): Promise<readonly (() => Promise<void>)[]> {
  const removeToken = await writeAdminToken(dataDir, token);
  return [removeToken, await writeServiceFile(dataDir, { url, grpc, ops, pid: process.pid })];
}

/** The service that uses this data folder; null without one. The file of a dead process is ignored. */
export async function readServiceFile(dataDir: string): Promise<RunningServiceFile | null> {
  const text = await readFile(join(dataDir, serviceFile), "utf8").catch(() => null);
  if (text === null) return null;
  try {
    const running = runningService.parse(JSON.parse(text));
    return isRunning(running.pid) ? running : null;
  } catch {
    // A file of another program or of a later version.
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

/** Writes a file atomically, readable only by the owner. */
async function writeWhole(file: string, text: string): Promise<void> {
  const unfinished = `${file}.${process.pid}.tmp`;
  await writeFile(unfinished, text, { mode: 0o600 });
  await rename(unfinished, file);
}

const ownerOnly = 0o700;

/**
 * Creates the data folder if necessary and checks that it is writable. A new or empty one gets mode 0700; one with files
 * keeps its mode, because it may have another use.
 */
export async function openDataDir(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: ownerOnly });
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
    if ((await readdir(path)).length === 0) await chmod(path, ownerOnly);
  } catch (cause) {
    const fix = "make the user of this process its owner, or choose another with --data-dir (UIS_DATA_DIR)";
    throw new StartError(`the data folder ${path} cannot be used: ${errorText(cause)}`, fix, { cause });
  }
}

/** Files and folders of the service in its data folder, with the access that it needs. */
const ownEntries: readonly { readonly name: string; readonly kind: "file" | "folder"; readonly mode: number }[] = [
  { name: "uis.db", kind: "file", mode: constants.R_OK | constants.W_OK },
  { name: "uis.db-wal", kind: "file", mode: constants.R_OK | constants.W_OK },
  { name: "uis.live-a", kind: "file", mode: constants.R_OK | constants.W_OK },
  { name: "uis.live-b", kind: "file", mode: constants.R_OK | constants.W_OK },
  { name: "master.key", kind: "file", mode: constants.R_OK },
  { name: tokenFile, kind: "file", mode: constants.F_OK },
  { name: serviceFile, kind: "file", mode: constants.F_OK },
  { name: "spool", kind: "folder", mode: constants.R_OK | constants.W_OK | constants.X_OK },
  { name: "models", kind: "folder", mode: constants.R_OK | constants.X_OK },
  { name: "models/index.json", kind: "file", mode: constants.R_OK },
];

/**
 * Rejects with StartError for a file in place of a folder, a folder in place of a file, or an entry that this user may not
 * access (E-29). Absent entries are created later.
 */
export async function checkDataFiles(dataDir: string): Promise<void> {
  for (const { name, kind, mode } of ownEntries) await checkEntry(join(dataDir, name), kind, mode);
  const spool = join(dataDir, "spool");
  const names = await readdir(spool).catch(() => []);
  for (const name of names.filter((each) => each.endsWith(".jsonl"))) {
    await checkEntry(join(spool, name), "file", constants.R_OK);
  }
}

async function checkEntry(path: string, kind: "file" | "folder", mode: number): Promise<void> {
  let found: Stats;
  try {
    found = await stat(path);
    if (kind === "file" ? found.isFile() : found.isDirectory()) return await access(path, mode);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return;
    throw toStartError(cause, path);
  }
  const is = found.isFile() ? "a file" : found.isDirectory() ? "a folder" : "neither a file nor a folder";
  throw new StartError(`${path} cannot be used: it is ${is}, and must be a ${kind}`, "move it away");
}

/** Turns an error of the file system into a StartError with cause and fix; returns any other error unchanged. */
export function toStartError(error: unknown, dataDir: string): unknown {
  const fault = fileFaultOf(error);
  if (fault === null) return error;
  const path = fault.path ?? dataDir;
  const fix = `${fault.fix}, or choose another data folder with --data-dir (UIS_DATA_DIR)`;
  return new StartError(`${path} cannot be used: ${fault.cause}`, fix, { cause: error });
}

/** Whether other users than the owner can access the folder; false if it does not exist, and on Windows, which has no modes. */
export async function isOpenToOthers(path: string, platform: NodeJS.Platform = process.platform): Promise<boolean> {
  if (platform === "win32") return false;
  const found = await stat(path).catch(() => null);
  return found !== null && (found.mode & 0o077) !== 0;
}
