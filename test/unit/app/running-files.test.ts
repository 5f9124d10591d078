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
  it("is readable by the owner alone (SEC-31)", async () => {
    await writeAdminToken(folder, newAdminToken());
    expect((await stat(join(folder, "admin.token"))).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(["admin.token"]);
  });

  it("is read back by commands, and gone when the process ends in order", async () => {
    const token = newAdminToken();
    const file = await writeAdminToken(folder, token);
    expect(await readAdminToken(folder)).toBe(token);
    await file.remove();
    expect(await readAdminToken(folder)).toBeNull();
  });

  it("stays when another process has taken the folder over", async () => {
    const old = await writeAdminToken(folder, newAdminToken());
    const token = newAdminToken();
    await writeAdminToken(folder, token);
    await old.remove();
    expect(await readAdminToken(folder)).toBe(token);
  });

  it("has the form that an operator's own must have, and is another each time", () => {
    expect(newAdminToken()).toMatch(/^[\x21-\x7e]{16,256}$/);
    expect(newAdminToken()).not.toBe(newAdminToken());
  });
});
