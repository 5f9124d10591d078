import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ApiKeys } from "../../../src/domain/access/api-keys.js";
import type { State } from "../../../src/domain/service/state.js";
import { createRandomIds } from "../../../src/lib/crypto.js";
import {
  appliedMigration,
  migrate,
  newestMigration,
  schemaDifferences,
} from "../../../src/state/embedded/database/migrations.js";
import { restoreEmbeddedState } from "../../../src/state/embedded/database/restore.js";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { openStateFile } from "../../../src/state/embedded/database/state-file.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { StateChild } from "./child-process.js";

const inUse = {
  kind: "refused",
  message: expect.stringContaining("in use"),
  fix: expect.stringContaining("--data-dir"),
};

let root: string;
let dataDir: string;
const warnings: string[] = [];
const log = { debug() {}, info() {}, error() {}, warn: (_: object, message: string) => void warnings.push(message) };

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-file-"));
  dataDir = join(root, "a", "data");
  warnings.length = 0;
});
afterEach(() => rm(root, { recursive: true }));

function open(): Promise<State> {
  return openEmbeddedState({ dataDir, log });
}

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o777).toString(8);
}

describe("the file of the embedded state", () => {
  it("is created with mode 0600 in a directory with mode 0700, independently of the umask (SEC-31)", async () => {
    const child = new StateChild(dataDir);
    try {
      expect(await child.hear(() => true)).toEqual({ kind: "opened" });
      child.tell({ kind: "insert", number: 1 });
      await child.hear(({ kind }) => kind === "answer");
      expect(await modeOf(dataDir)).toBe("700");
      const files = await readdir(dataDir);
      expect(files).toContain("uis.db-wal");
      for (const file of files) expect([file, await modeOf(join(dataDir, file))]).toEqual([file, "600"]);
    } finally {
      await child.kill();
    }
  });

  it("is restricted to its owner if others can read it, and a directory that others can read causes a warning (SEC-31)", async () => {
    await (await open()).close();
    await chmod(join(dataDir, "uis.db"), 0o644);
    await chmod(dataDir, 0o755);
    const state = await open();
    expect(await modeOf(join(dataDir, "uis.db"))).toBe("600");
    expect(warnings).toEqual([expect.stringContaining("chmod 700")]);
    expect((await state.health()).warnings).toEqual(warnings);
    await state.close();
  });

  it("is not opened by a second process, which fails immediately with cause and fix, while the first process continues", async () => {
    const state = await open();
    for (let attempt = 0; attempt < 2; attempt++) {
      const child = new StateChild(dataDir);
      expect(await child.hear(() => true)).toMatchObject(inUse);
      await child.kill();
      // A second opening in this process must also be rejected, and must not release the first one's lock.
      await expect(open()).rejects.toMatchObject({ name: "StateOpenError", message: inUse.message, fix: inUse.fix });
    }
    expect(await state.catalog.firstSeen(["m"], 5)).toEqual([5]);
    await state.close();
    await (await open()).close();
  });

  it("keeps the time at which models were first seen over a restart (MODEL-2)", async () => {
    const first = await open();
    await first.catalog.firstSeen(["a", "b"], 1_000);
    await first.close();
    const second = await open();
    expect(await second.catalog.firstSeen(["b", "c", "a"], 2_000)).toEqual([1_000, 2_000, 1_000]);
    await second.close();
  });

  it("contains neither a secret nor a sensitive part of a secret (KEY-3)", async () => {
    const state = await open();
    const deps = { now: () => state.now(), ids: createRandomIds(), random: randomBytes };
    const apiKeys = new ApiKeys({ keys: state.keys, ...deps });
    const { record, secret } = await apiKeys.create({ name: "needle", scope: "read" });
    await apiKeys.registerBootstrap("operators-own-key");
    const bytes = Buffer.concat(
      await Promise.all(["uis.db", "uis.db-wal"].map((file) => readFile(join(dataDir, file)))),
    );
    await state.close();
    expect(bytes.includes("needle")).toBe(true);
    expect(bytes.includes(record.hash)).toBe(true);
    const hidden = secret.slice(10, -4);
    for (let at = 0; at + 8 <= hidden.length; at++) expect(bytes.includes(hidden.slice(at, at + 8))).toBe(false);
    expect(bytes.includes("operators-own")).toBe(false);
  });

  it("is opened with a write-ahead log, full syncs and an exclusive lock", () => {
    const { db } = openStateFile(dataDir);
    expect(db.prepare("PRAGMA journal_mode").get()?.["journal_mode"]).toBe("wal");
    expect(db.prepare("PRAGMA synchronous").get()?.["synchronous"]).toBe(2);
    expect(db.prepare("PRAGMA locking_mode").get()?.["locking_mode"]).toBe("exclusive");
    expect(existsSync(join(dataDir, "uis.db-shm"))).toBe(false);
    db.close();
  });

  it("is copied before it is migrated from an earlier version, so that the earlier version can be used again (USE-23)", async () => {
    const earlier = newestMigration - 1;
    const kept = join(dataDir, `uis.db.step-${earlier}`);
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    const former = openSqlite(join(dataDir, "uis.db"));
    migrate(former, 1_000, earlier);
    former.exec("INSERT INTO models_seen (id, first_seen_at_ms) VALUES ('m', 5)");
    former.close();
    // Copy from an earlier migration from the same step, or from a start that was killed.
    await writeFile(kept, "outdated");
    await writeFile(`${kept}.unfinished`, "half");
    await (await open()).close();
    expect(warnings).toEqual([expect.stringContaining(`The file before it is kept in ${kept}`)]);
    expect(await modeOf(kept)).toBe("600");
    expect(existsSync(`${kept}.unfinished`)).toBe(false);
    const db = openSqlite(kept);
    expect(appliedMigration(db)).toBe(earlier);
    expect(schemaDifferences(db, earlier)).toEqual([]);
    expect(db.prepare("SELECT id FROM models_seen").all()).toHaveLength(1);
    db.close();
    // The copy can be restored like any backup, and the next start of this version creates it again.
    expect(restoreEmbeddedState({ dataDir, file: kept, nowMs: 1 })).not.toBeNull();
    const again = await open();
    expect(await again.catalog.firstSeen(["m"], 9)).toEqual([5]);
    await again.close();
  });

  it("is not changed if a newer version wrote it, and the error names that version", async () => {
    await (await open()).close();
    const db = openSqlite(join(dataDir, "uis.db"));
    db.exec("INSERT INTO migrations (number, applied_at_ms) VALUES (99, 0)");
    db.close();
    await expect(open()).rejects.toMatchObject({
      name: "StateOpenError",
      message: expect.stringContaining("step 99"),
      fix: expect.stringContaining("start the version that wrote it"),
    });
  });

  it("causes an error if it is not a database, or if its directory cannot be created", async () => {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    await writeFile(join(dataDir, "uis.db"), "certainly not a database".repeat(100));
    await expect(open()).rejects.toMatchObject({ message: expect.stringContaining("not a valid database") });
    dataDir = join(dataDir, "uis.db", "below-a-file");
    await expect(open()).rejects.toMatchObject({
      name: "StateOpenError",
      message: expect.stringContaining("a file is where a folder is expected"),
      fix: expect.stringContaining("--data-dir"),
    });
  });
});
