import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { State } from "../../../src/domain/service/state.js";
import { createSystemClock } from "../../../src/lib/clock.js";
import { openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { settleLost, soakLedger } from "../../support/ledger-soak.js";
import { silentLog } from "../../support/silent-log.js";

const requests = 100_000;
const leaseMs = 61_000;
const threeYearsMs = 3 * 366 * 86_400_000;

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-soak-"));
});
afterEach(() => rm(root, { recursive: true }));

/** Opens the state on a machine whose clocks are ahead and can be advanced. */
async function openAhead(aheadMs: number): Promise<{ state: State; advance(ms: number): void }> {
  const system = createSystemClock();
  const time = { aheadMs };
  const clock = {
    ...system,
    now: () => system.now() + time.aheadMs,
    monotonic: () => system.monotonic() + time.aheadMs,
  };
  const state = await openEmbeddedState({ dataDir: join(root, "data"), log: silentLog, clock });
  return {
    state,
    advance(ms) {
      time.aheadMs += ms;
    },
  };
}

/** Number of rows of each non-empty table, and number of pages of the file. */
async function contents(): Promise<{ rows: Record<string, number>; pages: number }> {
  // Reads a copy, because prepared statements may hold the lock for longer than the connection is open.
  const copy = join(root, "copy.db");
  await copyFile(join(root, "data", "uis.db"), copy);
  const db = openSqlite(copy);
  const names = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all();
  const counts = names.map(({ name }): [string, number] => {
    return [String(name), Number(db.prepare(`SELECT count(*) AS n FROM ${String(name)}`).get()?.["n"])];
  });
  const pages = Number(db.prepare("PRAGMA page_count").get()?.["page_count"]);
  db.close();
  return { rows: Object.fromEntries(counts.filter(([, count]) => count > 0)), pages };
}

/** Runs half of the requests, then three years in which expired data is purged. */
async function round(number: number): ReturnType<typeof contents> {
  const { state, advance } = await openAhead(number * threeYearsMs);
  const leftRunning = await soakLedger(state, (number * requests) / 2, requests / 2);
  advance(leaseMs);
  expect(await settleLost(state)).toBe(leftRunning);
  advance(threeYearsMs - leaseMs);
  while ((await state.purge(500)) > 0) {}
  await state.close();
  return contents();
}

describe("the embedded state after many requests", { timeout: 600_000 }, () => {
  it("contains no data that is never purged, and reuses the space in its file (USE-15)", async () => {
    const first = await round(0);
    // The newest markers of settled requests are kept, because the store's time continues from them after a restart.
    expect(Object.keys(first.rows).toSorted()).toEqual(["migrations", "settled"]);
    expect(first.rows["settled"]).toBeLessThanOrEqual(requests / 20);
    const second = await round(1);
    expect(Object.keys(second.rows).toSorted()).toEqual(Object.keys(first.rows).toSorted());
    expect(second.pages).toBeLessThanOrEqual(first.pages * 1.1);
  });
});
