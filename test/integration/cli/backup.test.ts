import { access, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { uis } from "../../support/cli-run.js";
import { startService } from "../../support/start-service.js";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-backup-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const kept = (dataDir: string) => ({ state: { durability: "every-write" }, data_dir: dataDir });
const modelsWith = async (api: string, secret: string) =>
  (await fetch(`${api}/models`, { headers: { authorization: `Bearer ${secret}` } })).status;

describe("uis backup and uis restore", () => {
  it("uis restore brings back keys and usage from a backup of a running service (USE-20, ERR-15)", async () => {
    const dataDir = join(folder, "data");
    const file = join(folder, "copy.db");
    const first = await startService({ config: kept(dataDir) });
    const env = { UIS_URL: first.http, UIS_DATA_DIR: dataDir };
    const secret = first.key;
    try {
      expect(await uis(["backup", file], { env })).toMatchObject({ code: 0 });
      expect((await uis(["backup", file], { env })).code).toBe(1);
      const again = await fetch(`${first.http}/unified.admin.v1.SystemService/CreateBackup`, {
        method: "POST",
        headers: { authorization: `Bearer ${first.adminToken}`, "content-type": "application/json" },
        body: JSON.stringify({ path: file }),
      });
      expect(again.status).toBe(409);
      // A key created after the copy is not in it.
      await first.service.parts.apiKeys.create({ name: "late", scope: "read" });
      const inUse = await uis(["restore", file], { env });
      expect(inUse.code).toBe(1);
      expect(inUse.stderr).toContain("stop");
    } finally {
      await first.close();
    }

    const { UIS_URL: _, ...stopped } = { ...env, UIS_OFFLINE: "1" };
    const restored = await uis(["restore", file, "--json"], { env: stopped });
    expect(restored).toMatchObject({ code: 0, stderr: "" });
    const { replaced, ...rest } = JSON.parse(restored.stdout) as Record<string, string>;
    expect(rest).toEqual({ file, data_dir: dataDir });
    expect(replaced).toMatch(/\/uis\.db\.replaced-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z$/);
    await access(replaced ?? "");
    const told = await uis(["restore", file], { env: stopped });
    expect(told.stdout).toContain(`The replaced state is kept in ${dataDir}`);
    const second = await startService({ config: kept(dataDir) });
    try {
      expect(await modelsWith(second.api, secret)).toBe(200);
      const { records } = await second.service.parts.apiKeys.list({ account: null, pageSize: 0, pageToken: "" });
      expect(records.map(({ name }) => name)).not.toContain("late");
    } finally {
      await second.close();
    }
  });

  it("uis backup copies the database of a stopped service without the service (USE-20)", async () => {
    const dataDir = join(folder, "standing");
    const service = await startService({ config: kept(dataDir) });
    await service.close();
    const file = join(folder, "standing.db");
    const { code, stdout } = await uis(["backup", file, "--json"], { env: { UIS_DATA_DIR: dataDir } });
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toEqual({ file });
  });

  it("uis backup copies nothing if there is no state, if it is in Redis, or if the named service does not answer", async () => {
    const file = join(folder, "none.db");
    const failing = async (env: Record<string, string>) => {
      const { code, stdout, stderr } = await uis(["backup", file], { env });
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      await expect(access(file)).rejects.toThrow("ENOENT");
      return stderr;
    };
    const empty = { UIS_DATA_DIR: join(folder, "empty") };
    expect(await failing(empty)).toContain("there is no state in");
    expect(await failing({ ...empty, REDIS_URL: "redis://127.0.0.1:1" })).toContain("in Redis");
    expect(await failing({ ...empty, UIS_URL: "http://127.0.0.1:1" })).toContain("no service answers");
  });

  it("uis backup reports in one line why it cannot write the file", async () => {
    const dataDir = join(folder, "unwritten");
    await (await startService({ config: kept(dataDir) })).close();
    const { code, stderr } = await uis(["backup", join(folder, "no", "such", "folder.db")], {
      env: { UIS_DATA_DIR: dataDir },
    });
    expect(code).toBe(1);
    const folderOfIt = join(folder, "no", "such");
    expect(stderr).toBe(
      `uis: The backup cannot be written: there is no folder ${folderOfIt}. Create it, or choose another.\n`,
    );
  });
});
