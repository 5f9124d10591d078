import { chmod, mkdir, mkdtemp, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { checkDataFiles, isOpenToOthers, openDataDir, toStartError } from "../../../src/app/process/data-folder.js";
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

describe("checkDataFiles", () => {
  it.each([
    ["spool", "file"],
    ["models", "file"],
    ["uis.db", "folder"],
    ["uis.live-a", "folder"],
    ["master.key", "folder"],
    ["admin.token", "folder"],
    ["service.json", "folder"],
    ["models/index.json", "folder"],
    ["spool/000000000001.jsonl", "folder"],
  ])("rejects %s if it is a %s, with path, cause and fix (E-29)", async (name, kind) => {
    const path = join(folder, name);
    await mkdir(dirname(path), { recursive: true });
    if (kind === "file") await writeFile(path, "");
    else await mkdir(path);
    const wanted = kind === "file" ? "folder" : "file";
    await expect(checkDataFiles(folder)).rejects.toMatchObject({
      name: "StartError",
      message: `${path} cannot be used: it is a ${kind}, and must be a ${wanted}`,
      fix: "move it away",
    });
  });

  it("rejects a link that leads to itself (E-29)", async () => {
    const path = join(folder, "admin.token");
    await symlink(path, path);
    await expect(checkDataFiles(folder)).rejects.toMatchObject({
      message: `${path} cannot be used: it is a link that leads to itself`,
      fix: expect.stringContaining("remove the link"),
    });
  });

  it("accepts an empty folder, and one with the files of a service", async () => {
    await checkDataFiles(folder);
    for (const name of ["uis.db", "master.key", "admin.token"]) await writeFile(join(folder, name), "");
    for (const name of ["spool", "models", "spool/lost+found"]) await mkdir(join(folder, name));
    await checkDataFiles(folder);
  });
});

describe("toStartError", () => {
  it.each([
    ["ENOSPC", "the disk is full", "free some space"],
    ["EROFS", "the file system is read-only", "mount it writable"],
    ["EACCES", "this user may not access it", "make the user of this process its owner"],
    ["EIO", "the disk reports an error", "check the disk"],
  ])("explains %s with path, cause and fix (E-29)", (code, cause, fix) => {
    const error = Object.assign(new Error(`${code}: as the system says`), { code, path: "/data/uis.live-a" });
    expect(toStartError(error, "/data")).toMatchObject({
      name: "StartError",
      message: `/data/uis.live-a cannot be used: ${cause}`,
      fix: expect.stringMatching(new RegExp(`^${fix}.*--data-dir`)),
    });
    const unnamed = Object.assign(new Error(`${code}: write`), { code });
    expect(toStartError(unnamed, "/data")).toMatchObject({ message: `/data cannot be used: ${cause}` });
  });

  it("returns other errors unchanged", () => {
    const defect = new TypeError("a defect");
    expect(toStartError(defect, "/data")).toBe(defect);
  });
});
