import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));

/** Copies the files that a clone would have to an empty folder; resolves with its path. The caller removes it. */
export async function copyOfRepository(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "uis-clone-"));
  const listed = await run("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: root,
    maxBuffer: 16 * 1024 * 1024,
  });
  // Deleted files are listed too while the deletion is not committed.
  for (const file of listed.stdout.split("\0").filter((name) => name !== "" && existsSync(join(root, name)))) {
    await mkdir(join(folder, dirname(file)), { recursive: true });
    await cp(join(root, file), join(folder, file));
  }
  return folder;
}
