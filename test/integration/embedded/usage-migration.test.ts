import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { periodAt } from "../../../src/domain/events/events.js";
import type { UsageGroup } from "../../../src/domain/metering/usage-store.js";
import { migrate } from "../../../src/state/embedded/database/migrations.js";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { databaseFile } from "../../../src/state/embedded/database/state-file.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { settlement } from "../../support/records.js";
import { silentLog } from "../../support/silent-log.js";

/** The last migration before usage was summed by operation. */
const stepBefore = 5;
const dayMs = 86_400_000;

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "uis-migration-"));
});
afterEach(() => rm(dataDir, { recursive: true }));

it("sums in a file of the version that summed usage over all operations are kept, without an operation (USE-10)", async () => {
  const { startMs } = periodAt("day", Date.now() - 2 * dayMs);
  const db = openSqlite(databaseFile(dataDir));
  migrate(db, 1_000, stepBefore);
  for (const table of ["usage_hours", "usage_days"]) {
    const insert = db.prepare(`INSERT INTO ${table} VALUES ('a', ?, ?, 'm', 3, 30, 15, 0, 9007199254740993)`);
    for (const keyId of ["", "key_1"]) insert.run(BigInt(startMs), keyId);
  }
  db.close();

  const state = await openEmbeddedState({ dataDir, log: silentLog });
  await state.ledger.settle(settlement("req_1", { endedAtMs: startMs }));
  const former = { requests: 3n, promptTokens: 30n, completionTokens: 15n, cachedTokens: 0n, costNano: 2n ** 53n + 1n };
  const now = { requests: 1n, promptTokens: 10n, completionTokens: 5n, cachedTokens: 0n, costNano: 0n };
  const row = { account: "a", startMs, model: "m", keyId: "key_1" };
  for (const width of ["hour", "day"] as const) {
    const range = { account: "a", width, fromMs: startMs, toMs: startMs + dayMs };
    expect(await state.usage.rows(range)).toEqual([
      { ...row, keyId: null, operation: null, ...former },
      { ...row, operation: null, ...former },
      { ...row, operation: "chat", ...now },
    ]);
    const requests = async (groupBy: readonly UsageGroup[]) => {
      const query = { ...range, groupBy, after: null, groupsMax: 10 };
      const { groups } = await state.usage.groups(query, new AbortController().signal);
      return groups.map((group) => [group.operation, group.requests]);
    };
    expect(await requests([])).toEqual([[null, 7n]]);
    expect(await requests(["operation"])).toEqual([
      [null, 6n],
      ["chat", 1n],
    ]);
  }
  await state.close();
});
