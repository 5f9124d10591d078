import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SessionRecord } from "../../../src/domain/access/sessions.js";
import type { State } from "../../../src/domain/service/state.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { FakeClock } from "../../support/fake-clock.js";
import { silentLog } from "../../support/silent-log.js";
import { numberedSettlement } from "./ledger-requests.js";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

let dataDir: string;
let clock: FakeClock;
let state: State;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "uis-purge-"));
  clock = new FakeClock();
  state = await openEmbeddedState({ dataDir, log: silentLog, clock });
});
afterEach(async () => {
  await state.close();
  await rm(dataDir, { recursive: true });
});

async function rowsOf(width: "hour" | "day"): Promise<number> {
  return (await state.usage.rows({ account: "acme", width, fromMs: 0, toMs: clock.now() + dayMs })).length;
}

/** Purges until no expired records are left; returns the number of calls that removed records. */
async function purgeAll(max: number): Promise<number> {
  let calls = 0;
  while ((await state.purge(max)) > 0) calls += 1;
  return calls;
}

describe("retention of the embedded state", () => {
  it("purges hourly usage after 90 days and daily usage after 2 years (USE-15)", async () => {
    await state.ledger.settle(numberedSettlement(1));
    clock.advance(90 * dayMs);
    await purgeAll(100);
    expect([await rowsOf("hour"), await rowsOf("day")]).toEqual([1, 1]);
    clock.advance(hourMs);
    await purgeAll(100);
    expect([await rowsOf("hour"), await rowsOf("day")]).toEqual([0, 1]);
    clock.advance(640 * dayMs);
    await purgeAll(100);
    expect(await rowsOf("day")).toBe(1);
    clock.advance(2 * dayMs);
    await purgeAll(100);
    expect(await rowsOf("day")).toBe(0);
  });

  it("purges at most the requested number of rows per call", async () => {
    for (let number = 0; number < 25; number++) await state.ledger.settle(numberedSettlement(number));
    clock.advance(dayMs + 1);
    await state.ledger.settle(numberedSettlement(99));
    expect(await state.purge(10)).toBe(10);
    expect(await state.purge(10)).toBe(10);
    expect(await state.purge(10)).toBe(5);
    expect(await state.purge(10)).toBe(0);
  });

  it("keeps the marker of a settled request for 24 hours, and the newest marker permanently", async () => {
    await state.ledger.settle(numberedSettlement(1));
    clock.advance(dayMs);
    await purgeAll(10);
    expect(await state.ledger.settle(numberedSettlement(1))).toMatchObject({ duplicate: true });
    clock.advance(10 * dayMs);
    await purgeAll(10);
    const nowMs = state.now();
    await state.ledger.settle(numberedSettlement(2));
    await state.close();
    clock = new FakeClock(nowMs - 240_000);
    state = await openEmbeddedState({ dataDir, log: silentLog, clock });
    expect(state.now()).toBeGreaterThanOrEqual(nowMs);
  });

  it("purges audit records after 400 days, and sessions when they expire (KEY-23)", async () => {
    const actor = { kind: "system", id: "" } as const;
    const act = { actor, address: "", action: "test", target: "", result: "ok", details: { name: "value" } };
    await state.audit.append({ id: "aud_1", atMs: clock.now(), ...act });
    const session: SessionRecord = {
      id: "ses_1",
      tokenHash: "hash",
      user: "admin",
      role: "admin",
      createdAtMs: clock.now(),
      lastSeenAtMs: clock.now(),
      expiresAtMs: clock.now() + hourMs,
      address: "127.0.0.1",
      userAgent: "",
    };
    await state.sessions.insert(session);
    clock.advance(hourMs);
    expect(await state.purge(10)).toBe(0);
    clock.advance(1);
    expect(await state.purge(10)).toBe(1);
    expect(await state.sessions.findByHash("hash")).toBeNull();
    clock.advance(400 * dayMs - hourMs - 1);
    expect(await state.purge(10)).toBe(0);
    clock.advance(1);
    expect(await state.purge(10)).toBe(1);
    expect((await state.audit.list({ limit: 10, after: null })).records).toEqual([]);
  });
});
