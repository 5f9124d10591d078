import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { isOpenToOthers, openDataDir } from "../../../src/app/process/data-folder.js";
import { StartError } from "../../../src/app/process/lifecycle.js";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-data-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

const modeOf = async (path: string) => (await stat(path)).mode & 0o777;

describe("openDataDir", () => {
  it("makes a new or empty folder accessible to its owner only (SEC-31)", async () => {
    const fresh = join(folder, "a/b");
    await openDataDir(fresh);
    expect(await modeOf(fresh)).toBe(0o700);
    const empty = join(folder, "empty");
    await mkdir(empty);
    await chmod(empty, 0o755);
    await openDataDir(empty);
    expect(await modeOf(empty)).toBe(0o700);
  });

  it("keeps the mode of a folder with files", async () => {
    await writeFile(join(folder, "file"), "");
    await chmod(folder, 0o755);
    await openDataDir(folder);
    expect(await modeOf(folder)).toBe(0o755);
    expect(await isOpenToOthers(folder)).toBe(true);
    expect(await isOpenToOthers(folder, "win32")).toBe(false);
  });

  it("names cause and remedy if the path cannot be a folder", async () => {
    await writeFile(join(folder, "file"), "");
    const error = await openDataDir(join(folder, "file")).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StartError);
    expect((error as StartError).fix).toContain("--data-dir");
  });
});
