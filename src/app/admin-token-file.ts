import { randomBytes } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Name inside of the data folder. Commands on the same machine read it. */
const fileName = "admin.token";

export interface AdminTokenFile {
  /** Valid as long as this process runs. */
  readonly token: string;
  /** Removes the file, unless another process has written its own since. */
  remove(): Promise<void>;
}

/** A fresh credential of the administrator. 256 bits, printable. */
export function newAdminToken(): string {
  return `uis-admin-${randomBytes(32).toString("base64url")}`;
}

/** Leaves the token where `uis` commands find it, readable by the owner alone. The file appears whole or not at all. */
export async function writeAdminToken(dataDir: string, token: string): Promise<AdminTokenFile> {
  const file = join(dataDir, fileName);
  const unfinished = `${file}.${process.pid}.tmp`;
  await writeFile(unfinished, `${token}\n`, { mode: 0o600 });
  await rename(unfinished, file);
  return {
    token,
    async remove() {
      if ((await readAdminToken(dataDir)) === token) await rm(file, { force: true });
    },
  };
}

/** The token of the service that runs on this data folder; null when there is none that this user may read. */
export async function readAdminToken(dataDir: string): Promise<string | null> {
  try {
    return (await readFile(join(dataDir, fileName), "utf8")).trim();
  } catch {
    // Absent or not ours: the caller says what to do instead.
    return null;
  }
}
