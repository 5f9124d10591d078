import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { migrate } from "../../../src/state/embedded/database/migrations.js";
import { restoreEmbeddedState } from "../../../src/state/embedded/database/restore.js";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { keyRecord, listKeys } from "../../suites/api-key-records.js";
import { storedResponse } from "../../support/records.js";
import { silentLog } from "../../support/silent-log.js";
import { StateChild } from "./child-process.js";
import { numberedSettlement, usedThisMonth } from "./ledger-requests.js";

let root: string;
let dataDir: string;
let file: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-backup-"));
  dataDir = join(root, "data");
  file = join(root, "backup.db");
});
afterEach(() => rm(root, { recursive: true }));

const open = () => openEmbeddedState({ dataDir, log: silentLog });

/** Creates a backup with key 1 and one request, then adds key 2 to the state. */
async function backUpAndGoOn(): Promise<void> {
  const state = await open();
  await state.keys.insert(keyRecord(1));
  await state.ledger.settle(numberedSettlement(1));
  if (state.backup === null) throw new Error("the embedded state has backups");
  await state.backup(file);
  await state.keys.insert(keyRecord(2));
  await state.close();
}

/** Creates a backup of a version with a change. */
function createBackup(change: string, version?: number): void {
  const db = openSqlite(file);
  migrate(db, 1_000, version);
  db.exec(change);
  db.close();
}

async function keyIds(): Promise<string[]> {
  const state = await open();
  const records = await listKeys(state.keys);
  await state.close();
  return records.map(({ id }) => id);
}

describe("backups of the embedded state", () => {
  it("a backup that is taken while requests are settled is consistent and restores its contents (USE-20)", async () => {
    const state = await open();
    const settled = Promise.all(
      Array.from({ length: 2_000 }, (_, number) => state.ledger.settle(numberedSettlement(number))),
    );
    await state.backup?.(file);
    await settled;
    await state.close();
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await readdir(root)).toEqual(["backup.db", "data"]);

    restoreEmbeddedState({ dataDir, file, nowMs: 1 });
    const restored = await open();
    const rows = await restored.usage.rows({ account: "acme", width: "hour", fromMs: 0, toMs: restored.now() });
    const { requests } = await usedThisMonth(restored);
    expect(rows.reduce((sum, row) => sum + row.requests, 0n)).toBe(requests);
    // Settling all requests again counts none of them twice.
    await Promise.all(Array.from({ length: 2_000 }, (_, number) => restored.ledger.settle(numberedSettlement(number))));
    expect(await usedThisMonth(restored)).toMatchObject({ requests: 2_000n });
    await restored.close();
  });

  it("the store answers and settles while a backup is written, and the backup has all settlements from before its start (E-15)", async () => {
    const state = await open();
    const sealed = randomBytes(524_288).toString("hex");
    for (let number = 0; number < 16; number++)
      await state.responses.put(storedResponse(number, { account: "acme", sealed }), 100);
    await state.ledger.settle(numberedSettlement(1));
    let isOver = false;
    const backup = state.backup?.(file).finally(() => {
      isOver = true;
    });
    let settled = 1;
    while (!isOver) {
      settled += 1;
      await state.ledger.settle(numberedSettlement(settled));
    }
    await backup;
    await state.close();
    // If settlements waited for the whole copy, there would be only one.
    expect(settled).toBeGreaterThan(3);
    restoreEmbeddedState({ dataDir, file, nowMs: 1 });
    const restored = await open();
    expect((await usedThisMonth(restored)).requests).toBeGreaterThanOrEqual(1n);
    expect((await usedThisMonth(restored)).requests).toBeLessThan(BigInt(settled));
    expect((await restored.responses.get("acme", "resp_7"))?.sealed).toBe(sealed);
    await restored.close();
  });

  it("two simultaneous backups run one after the other, and a stop cancels the running one (E-15)", async () => {
    const state = await open();
    const sealed = randomBytes(524_288).toString("hex");
    for (let number = 0; number < 4; number++)
      await state.responses.put(storedResponse(number, { account: "acme", sealed }), 100);
    const other = join(root, "other.db");
    const both = Promise.all([state.backup?.(file), state.backup?.(other)]);
    await state.ledger.settle(numberedSettlement(1));
    await both;
    const last = state.backup?.(join(root, "last.db"));
    const [, result] = await Promise.all([
      state.close(),
      last?.then(
        () => "written",
        () => "ended",
      ),
    ]);
    const names = await readdir(root);
    expect(names).toEqual(["backup.db", "data", ...(result === "written" ? ["last.db"] : []), "other.db"]);
    for (const each of [file, other]) restoreEmbeddedState({ dataDir: `${each}.data`, file: each, nowMs: 1 });
  });

  it("restoring replaces everything, including the log of a killed process (USE-20)", async () => {
    await backUpAndGoOn();
    const child = new StateChild(dataDir);
    try {
      await child.hear(() => true);
      child.tell({ kind: "insert", number: 3 });
      await child.hear(({ kind }) => kind === "answer");
    } finally {
      await child.kill();
    }
    const nowMs = Date.UTC(2026, 0, 31, 12, 0, 0, 7);
    const replaced = restoreEmbeddedState({ dataDir, file, nowMs });
    expect(replaced).toBe(join(dataDir, "uis.db.replaced-2026-01-31T12-00-00.007Z"));
    expect(await readdir(dataDir)).toEqual(["uis.db", "uis.db.replaced-2026-01-31T12-00-00.007Z"]);
    for (const name of await readdir(dataDir)) expect((await stat(join(dataDir, name))).mode & 0o777).toBe(0o600);
    expect(await keyIds()).toEqual([keyRecord(1).id]);
  });

  it("a restore keeps the replaced state with its log, and the replaced state can be restored again", async () => {
    await backUpAndGoOn();
    const replaced = restoreEmbeddedState({ dataDir, file, nowMs: 1 });
    expect(await keyIds()).toEqual([keyRecord(1).id]);
    expect(replaced).not.toBeNull();
    restoreEmbeddedState({ dataDir, file: replaced ?? "", nowMs: 2 });
    expect(await keyIds()).toEqual([keyRecord(2).id, keyRecord(1).id]);
  });

  it("restores into a missing directory and over a damaged file (USE-20)", async () => {
    await backUpAndGoOn();
    const elsewhere = join(root, "new");
    expect(restoreEmbeddedState({ dataDir: elsewhere, file, nowMs: 1 })).toBeNull();
    expect(await readdir(elsewhere)).toEqual(["uis.db"]);
    const damaged = randomBytes(100_000);
    await writeFile(join(dataDir, "uis.db"), damaged);
    const replaced = restoreEmbeddedState({ dataDir, file, nowMs: 2 });
    expect(await readFile(replaced ?? "")).toEqual(damaged);
    expect(await keyIds()).toEqual([keyRecord(1).id]);
  });

  it("a restore is rejected while a service runs on the directory, and changes nothing", async () => {
    await backUpAndGoOn();
    const child = new StateChild(dataDir);
    try {
      await child.hear(() => true);
      expect(() => restoreEmbeddedState({ dataDir, file, nowMs: 1 })).toThrow("in use by another process");
      child.tell({ kind: "find", number: 2 });
      expect(await child.hear(({ kind }) => kind === "answer")).toMatchObject({ said: "done" });
    } finally {
      await child.kill();
    }
    expect(await keyIds()).toEqual([keyRecord(2).id, keyRecord(1).id]);
  });

  it("a restore rejects a damaged backup and a backup of a newer version, and changes nothing", async () => {
    await backUpAndGoOn();
    const refused = (wrong: string, why: RegExp) => {
      expect(() => restoreEmbeddedState({ dataDir, file: join(root, wrong), nowMs: 1 })).toThrow(why);
    };
    refused("missing.db", /cannot be restored/);
    await writeFile(join(root, "rubbish.db"), randomBytes(50_000));
    refused("rubbish.db", /is not a backup/);
    const bytes = await readFile(file);
    await writeFile(join(root, "cut.db"), bytes.subarray(0, bytes.length / 2));
    refused("cut.db", /damaged|not a backup/);
    const empty = openSqlite(join(root, "other.db"));
    empty.exec("CREATE TABLE other (x)");
    empty.close();
    refused("other.db", /is not a backup/);
    await writeFile(join(root, "newer.db"), bytes);
    const newer = openSqlite(join(root, "newer.db"));
    newer.exec("INSERT INTO migrations (number, applied_at_ms) VALUES (999, 0)");
    newer.close();
    refused("newer.db", /newer version/);
    expect(await readdir(dataDir)).toEqual(["uis.db"]);
    expect(await keyIds()).toEqual([keyRecord(2).id, keyRecord(1).id]);
  });

  it("a restore rejects a backup whose schema differs from the schema of its version, and changes nothing (E-25)", async () => {
    const faults = {
      "trigger undo is added": "CREATE TRIGGER undo AFTER UPDATE ON api_keys BEGIN SELECT 1; END",
      "view keys is added": "CREATE VIEW keys AS SELECT * FROM api_keys",
      "table words is added": "CREATE VIRTUAL TABLE words USING fts5(word)",
      "index one_name is added": "CREATE UNIQUE INDEX one_name ON api_keys (name)",
      "index responses_by_age is missing": "DROP INDEX responses_by_age",
      "table api_keys is changed": "ALTER TABLE api_keys ADD COLUMN note TEXT",
    };
    for (const [fault, sql] of Object.entries(faults)) {
      createBackup(sql);
      expect(() => restoreEmbeddedState({ dataDir, file, nowMs: 1 })).toThrow(
        `${file} has a schema that is not this service's: ${fault}`,
      );
      await rm(file);
    }
    expect(await readdir(dataDir)).toEqual([]);
  });

  it("a restore accepts a backup of an earlier version, and one with statistics of SQLite's query planner (E-25)", async () => {
    createBackup("ANALYZE", 4);
    restoreEmbeddedState({ dataDir, file, nowMs: 1 });
    expect(await readdir(dataDir)).toEqual(["uis.db"]);
  });

  it("a restore keeps the log of a lost database file (E-24)", async () => {
    createBackup("SELECT 1");
    await mkdir(dataDir);
    await writeFile(join(dataDir, "uis.db"), "");
    await writeFile(join(dataDir, "uis.db-wal"), "all that is left");
    const kept = restoreEmbeddedState({ dataDir, file, nowMs: 1 });
    expect(await readFile(`${kept}-wal`, "utf8")).toBe("all that is left");
    expect(await readFile(join(dataDir, "uis.db"))).toEqual(await readFile(file));
  });

  it("a backup overwrites no file, and leaves no file if it cannot be written", async () => {
    const state = await open();
    await writeFile(file, "something dear");
    await expect(state.backup?.(file)).rejects.toMatchObject({ code: "conflict" });
    expect(await readFile(file, "utf8")).toBe("something dear");
    const nowhere = join(root, "nowhere", "backup.db");
    await expect(state.backup?.(nowhere)).rejects.toMatchObject({ code: "storage_unavailable" });
    expect((await state.health()).ok).toBe(true);
    await state.close();
  });
});
