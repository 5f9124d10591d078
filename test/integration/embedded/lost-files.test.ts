import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { migrate, newestMigration } from "../../../src/state/embedded/database/migrations.js";
import { restoreEmbeddedState } from "../../../src/state/embedded/database/restore.js";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { inspectStateFile } from "../../../src/state/embedded/database/state-check.js";
import { databaseFile, openStateFile } from "../../../src/state/embedded/database/state-file.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { keyRecord } from "../../suites/api-key-records.js";
import { eventually } from "../../support/eventually.js";

const nowMs = Date.UTC(2026, 0, 1);
const dayMs = 86_400_000;

let root: string;
/** A database with one drained deployment. */
let whole: string;
/** Data folder of the current test, with a copy of that database. */
let dataDir: string;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-lost-"));
  whole = join(root, "whole.db");
  changed(whole, `INSERT INTO drains (id, since_ms) VALUES ('d', ${nowMs})`);
});
afterAll(() => rm(root, { recursive: true }));
beforeEach(async () => {
  dataDir = await mkdtemp(join(root, "data-"));
  await copyFile(whole, databaseFile(dataDir));
});

/** Runs SQL on a database of this version and leaves no log. */
function changed(file: string, sql: string): void {
  const db = openSqlite(file);
  migrate(db, nowMs);
  db.exec(sql);
  db.close();
}

/** Number of drained deployments of a store that can be opened. */
function drainsIn(folder: string, options = {}): { drains: unknown; warnings: readonly string[] } {
  const { db, warnings } = openStateFile(folder, options);
  const drains = db.prepare("SELECT count(*) AS drains FROM drains").get()?.["drains"];
  db.close();
  return { drains, warnings };
}

describe("data files under a running service", () => {
  it("that are moved cause writes to be rejected until they are moved back; if deleted, a backup is still complete (E-23)", async () => {
    const errors: string[] = [];
    const log = { debug() {}, info() {}, warn() {}, error: (_: object, message: string) => void errors.push(message) };
    const state = await openEmbeddedState({ dataDir, log, checkEveryMs: 5 });
    const file = databaseFile(dataDir);
    const away = join(root, "away");
    const refusedFor = async (fault: string): Promise<void> => {
      await eventually(() => state.fileFault() === fault, fault);
      await expect(state.keys.insert(keyRecord(1))).rejects.toMatchObject({
        code: "storage_unavailable",
        message: expect.stringContaining(fault),
      });
      expect(await state.health()).toMatchObject({ ok: true, writeFault: fault });
    };
    expect(state.fileFault()).toBeNull();
    for (const [moved, fault] of [
      [dataDir, "uis.db was deleted or moved"],
      [`${file}-wal`, "uis.db-wal was deleted or moved"],
    ] as const) {
      await rename(moved, away);
      await refusedFor(fault);
      await rename(away, moved);
      await eventually(() => state.fileFault() === null, "the files are in place again");
    }
    await state.keys.insert(keyRecord(1));
    await rm(file);
    await refusedFor("uis.db was deleted or moved");
    await writeFile(file, "another file");
    await refusedFor("uis.db was replaced by another file");
    expect(errors[0]).toMatch(/refuses writes.*uis\.db was deleted.*uis backup FILE/);
    expect((await state.drains.list()).map(({ id }) => id)).toEqual(["d"]);
    const saved = join(root, "saved.db");
    await state.backup?.(saved);
    await state.close();
    restoreEmbeddedState({ dataDir, file: saved, nowMs });
    expect(drainsIn(dataDir).drains).toBe(1);
  });
});

describe("a data folder whose database is lost", () => {
  const lost = {
    name: "StateOpenError",
    fix: expect.stringMatching(/uis backup.*uis restore.*REDIS_URL.*uis serve --new-store/),
  };
  const empty = () => writeFile(databaseFile(dataDir), "");
  const remove = () => rm(databaseFile(dataDir));
  const leave = (name: string) => writeFile(join(dataDir, name), "left");

  /** Names and contents of all files. */
  async function contents(): Promise<Record<string, string>> {
    const found = (await readdir(dataDir, { recursive: true, withFileTypes: true })).filter((each) => each.isFile());
    const texts = await Promise.all(found.map(({ parentPath, name }) => readFile(join(parentPath, name), "latin1")));
    return Object.fromEntries(found.map(({ parentPath, name }, i) => [join(parentPath, name), texts[i] ?? ""]));
  }

  it.each([
    ["is empty", () => empty()],
    ["is empty but has a log", () => empty().then(() => leave("uis.db-wal"))],
    ["is missing but its log exists", () => remove().then(() => leave("uis.db-wal"))],
    ["is missing but a rollback journal exists", () => remove().then(() => leave("uis.db-journal"))],
    ["is missing but the journal of running requests exists", () => remove().then(() => leave("uis.live-a"))],
    ["is missing but an empty spool exists", () => remove().then(() => mkdir(join(dataDir, "spool")))],
  ])("where uis.db %s: the start fails and changes no file (E-24)", async (_, lose) => {
    await lose();
    const before = await contents();
    expect(() => openStateFile(dataDir)).toThrow(expect.objectContaining(lost));
    expect(inspectStateFile(dataDir, { nowMs, leadMaxMs: 0 })).toMatchObject({ isFatal: true, fix: lost.fix });
    expect(await contents()).toEqual(before);
  });

  it("starts with an empty state only with --new-store, which moves the remaining files to another folder (E-24)", async () => {
    await empty();
    await leave("uis.db-wal");
    await mkdir(join(dataDir, "spool"));
    expect(() => openStateFile(dataDir)).toThrow(expect.objectContaining(lost));
    expect(drainsIn(dataDir, { newStore: true })).toEqual({
      drains: 0,
      warnings: [expect.stringContaining("replaced-")],
    });
    const [folder = ""] = (await readdir(dataDir)).filter((name) => name.startsWith("replaced-"));
    expect((await readdir(join(dataDir, folder))).sort()).toEqual(["spool", "uis.db", "uis.db-wal"]);
  });

  it("is not changed by --new-store if its database is usable (E-24)", () => {
    const warnings = [expect.stringContaining("--new-store has no effect")];
    expect(drainsIn(dataDir, { newStore: true })).toEqual({ drains: 1, warnings });
  });

  it.each([
    ["an empty folder", async () => {}],
    ["a folder with only models", () => mkdir(join(dataDir, "models"))],
    ["a folder with a provisioned master key", () => leave("master.key")],
  ])("%s counts as new, and a start creates a database in it (E-24)", async (_, fill) => {
    await remove();
    await fill();
    expect(drainsIn(dataDir)).toEqual({ drains: 0, warnings: [] });
    expect((await readdir(dataDir)).filter((name) => /uis\.db\.|journal/.test(name))).toEqual([]);
  });
});

describe("the check of a stopped store", () => {
  const pageBytes = 4096;
  const found = (change: string | Buffer) => {
    const file = databaseFile(dataDir);
    if (typeof change === "string") changed(file, change);
    return typeof change === "string" ? check() : writeFile(file, change).then(check);
  };
  const check = () => inspectStateFile(dataDir, { nowMs, leadMaxMs: 300_000 });

  it("reports no problem if there is no store or if it is intact", async () => {
    expect(check()).toBeNull();
    await rm(databaseFile(dataDir));
    expect(check()).toBeNull();
  });

  it.each([
    ["zeroed", (bytes: Buffer) => Buffer.alloc(bytes.length), true, "not a valid database", "uis restore"],
    ["cut", (bytes: Buffer) => bytes.subarray(0, 20 * pageBytes), true, "not a valid database", "uis restore"],
    [
      "damaged inside",
      (bytes: Buffer) => bytes.fill(0, 10 * pageBytes, 11 * pageBytes),
      false,
      "damaged",
      "uis restore",
    ],
  ])("reports a file that is %s (E-29)", async (_, damage, isFatal, message, fix) => {
    expect(await found(damage(await readFile(whole)))).toMatchObject({
      isFatal,
      message: expect.stringContaining(message),
      fix: expect.stringContaining(fix),
    });
  });

  it.each([
    [`INSERT INTO settled VALUES ('req_1', ${nowMs + 40 * dayMs})`, false, "960.0 h ahead", "uis state repair-time"],
    [
      `INSERT INTO migrations VALUES (${newestMigration + 1}, 0)`,
      true,
      "newer version",
      "start the version that wrote it",
    ],
  ])(
    "after %s reports times ahead of the clock or a newer version (E-22, E-29)",
    async (sql, isFatal, message, fix) => {
      expect(await found(sql)).toMatchObject({
        isFatal,
        message: expect.stringContaining(message),
        fix: expect.stringContaining(fix),
      });
    },
  );
});
