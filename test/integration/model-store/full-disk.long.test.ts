import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { PullOptions } from "../../../src/model-store/sources/source-fetcher.js";
import { writeTinyGguf } from "../../support/model-files/tiny-gguf.js";
import { freshFolder, openStore, startHub } from "./open-store.js";

const diskBytes = 1_048_576;

/** A folder on a separate disk of 1 MiB. Null if this user may not mount one. */
async function smallDisk(): Promise<string | null> {
  const folder = await freshFolder();
  const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${diskBytes}`, "tmpfs", folder]);
  if (mounted.status !== 0) return null;
  onTestFinished(() => void spawnSync("umount", [folder]));
  return folder;
}

/** Pulls a file that is twice as large as the disk; resolves with the number of requests that were sent. */
async function pullTooMuch(disk: string, options: Partial<PullOptions>): Promise<number> {
  const hub = await startHub();
  const path = join(await freshFolder(), "large.gguf");
  await writeTinyGguf(path, "large", (2 * diskBytes) / 4);
  hub.put("owner/repo", "large.gguf", await readFile(path));
  const { pull, leftovers } = await openStore({ hubEndpoint: hub.endpoint, ...options }, join(disk, "models"));
  await expect(pull("hf:owner/repo/large.gguf")).rejects.toMatchObject({
    name: "ModelFileError",
    fault: "no_space",
    message: expect.stringMatching(/bytes are needed in .* are free/),
  });
  expect(await leftovers()).toEqual([]);
  return hub.requests.length;
}

describe("a disk that is too small", () => {
  it("is detected as soon as the file's length is known, and no files are left on it", async (ctx) => {
    const disk = await smallDisk();
    if (disk === null) return ctx.skip("this user may not mount a disk");
    expect(await pullTooMuch(disk, {})).toBe(1);
  });

  it("makes the pull fail if it fills up during the download, and no files are left on it", async (ctx) => {
    const disk = await smallDisk();
    if (disk === null) return ctx.skip("this user may not mount a disk");
    expect(await pullTooMuch(disk, { freeBytes: async () => Number.MAX_SAFE_INTEGER })).toBe(1);
  });
});
