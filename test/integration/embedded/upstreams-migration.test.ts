import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { migrate } from "../../../src/state/embedded/database/migrations.js";
import { restoreEmbeddedState } from "../../../src/state/embedded/database/restore.js";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { databaseFile } from "../../../src/state/embedded/database/state-file.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { storedUpstream } from "../../support/records.js";
import { silentLog } from "../../support/silent-log.js";

/** The last migration before upstreams could be stored. */
const stepBefore = 6;

it("a file of the version without stored upstreams opens without upstreams, and a later backup contains new ones", async () => {
  const root = await mkdtemp(join(tmpdir(), "uis-migration-"));
  onTestFinished(() => rm(root, { recursive: true }));
  const db = openSqlite(databaseFile(root));
  migrate(db, 1_000, stepBefore);
  db.close();
  const state = await openEmbeddedState({ dataDir: root, log: silentLog });
  expect([await state.upstreams.list(), await state.drains.list()]).toEqual([[], []]);
  await state.upstreams.insert(storedUpstream("gpu"));
  await state.drains.insert({ id: "gpu/m", sinceMs: 5 });
  const file = join(root, "backup.db");
  await state.backup?.(file);
  await state.upstreams.remove("gpu");
  await state.close();
  restoreEmbeddedState({ dataDir: root, file, nowMs: 1 });
  const restored = await openEmbeddedState({ dataDir: root, log: silentLog });
  expect(await restored.upstreams.list()).toEqual([storedUpstream("gpu")]);
  expect(await restored.drains.list()).toEqual([{ id: "gpu/m", sinceMs: 5 }]);
  await restored.close();
});
