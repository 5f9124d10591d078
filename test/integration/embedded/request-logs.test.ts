import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import type { RequestFilter } from "../../../src/domain/request-log/request-log-store.js";
import { migrate } from "../../../src/state/embedded/database/migrations.js";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { databaseFile } from "../../../src/state/embedded/database/state-file.js";
import { openMemoryState } from "../../../src/state/embedded/memory-state.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { requestLogEntry } from "../../support/records.js";
import { silentLog } from "../../support/silent-log.js";

/** The last migration before requests could be stored. */
const stepBefore = 7;
const anyRequest: RequestFilter = { model: null, keyId: null, account: null, code: null, fromMs: null, toMs: null };

it("a file of the version without a request log opens with an empty one, which survives a restart", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "uis-migration-"));
  onTestFinished(() => rm(dataDir, { recursive: true }));
  const db = openSqlite(databaseFile(dataDir));
  migrate(db, 1_000, stepBefore);
  db.close();
  const content = { request: "{}", answers: ["a"], errorMessage: "", isCut: false };
  const state = await openEmbeddedState({ dataDir, log: silentLog });
  expect(await state.requestLogs.newest()).toBe(0);
  await state.requestLogs.append([requestLogEntry(1), { ...requestLogEntry(2), content }, requestLogEntry(3)], 2);
  await state.close();
  const reopened = await openEmbeddedState({ dataDir, log: silentLog });
  expect(await reopened.requestLogs.get(requestLogEntry(2).record.id)).toEqual({ ...requestLogEntry(2), content });
  expect(await reopened.requestLogs.get(requestLogEntry(1).record.id)).toBeNull();
  expect(await reopened.requestLogs.newest()).toBe(3);
  await reopened.close();
});

it("one read examines at most 5,000 records, and the pages contain all records that match", async () => {
  const state = openMemoryState();
  const { requestLogs } = state;
  for (let batch = 0; batch < 11; batch += 1) {
    const numbers = Array.from({ length: 1_000 }, (_, index) => batch * 1_000 + index);
    const entries = numbers.map((number) => requestLogEntry(number, { model: number % 4_000 === 0 ? "rare" : "m" }));
    await requestLogs.append(entries, 100_000);
  }
  const found: string[] = [];
  const sizes: number[] = [];
  for (let after: string | null = null, pages = 0; pages === 0 || after !== null; pages += 1) {
    const page = await requestLogs.list({ filter: { ...anyRequest, model: "rare" }, limit: 10, after });
    found.push(...page.records.map(({ id }) => id));
    sizes.push(page.records.length);
    after = page.next;
  }
  expect(found).toEqual([8_000, 4_000, 0].map((number) => requestLogEntry(number).record.id));
  expect(sizes).toEqual([1, 1, 1]);
  await state.close();
});
