import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { newAdminToken, readAdminToken, writeAdminToken } from "../../../src/app/process/data-folder.js";

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-token-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

describe("the administrator's token of a process", () => {
  it("is readable only by the owner (SEC-31)", async () => {
    await writeAdminToken(folder, newAdminToken());
    expect((await stat(join(folder, "admin.token"))).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(["admin.token"]);
  });

  it("is readable by commands, and removed by a regular stop", async () => {
    const token = newAdminToken();
    const remove = await writeAdminToken(folder, token);
    expect(await readAdminToken(folder)).toBe(token);
    await remove();
    expect(await readAdminToken(folder)).toBeNull();
  });

  it("is not removed if another process has replaced it", async () => {
    const removeOld = await writeAdminToken(folder, newAdminToken());
    const token = newAdminToken();
    await writeAdminToken(folder, token);
    await removeOld();
    expect(await readAdminToken(folder)).toBe(token);
  });

  it("has the format of UIS_ADMIN_TOKEN, and differs at each start", () => {
    expect(newAdminToken()).toMatch(/^[\x21-\x7e]{16,256}$/);
    expect(newAdminToken()).not.toBe(newAdminToken());
  });
});
