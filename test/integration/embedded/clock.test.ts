import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { periodAt } from "../../../src/domain/events/events.js";
import type { Claim } from "../../../src/domain/webhooks/delivery-queue.js";
import { integer, openSqlite } from "../../../src/state/embedded/database/sqlite.js";
import { databaseFile } from "../../../src/state/embedded/database/state-file.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { repairTimes } from "../../../src/state/embedded/time-repair.js";
import { attemptResult, event, retryIn } from "../../suites/delivery-records.js";
import { endpoint } from "../../support/records.js";
import { silentLog } from "../../support/silent-log.js";
import { numberedAdmission, numberedSettlement } from "./ledger-requests.js";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const noonMs = Date.UTC(2026, 2, 31, 12);

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-clock-"));
});
afterEach(() => rm(root, { recursive: true }));

/** A machine whose clock can be set; `jumpMs` is the size of the jump. */
function machine(wallMs: number) {
  const time = { jumpMs: 0, passedMs: 0 };
  const warned: string[] = [];
  const log = { ...silentLog, warn: (_: object, message: string) => void warned.push(message) };
  const clock = {
    now: () => wallMs + time.passedMs + time.jumpMs,
    monotonic: () => time.passedMs,
    after: () => () => {},
  };
  const dataDir = join(root, "data");
  return { time, warned, dataDir, now: () => clock.now(), open: () => openEmbeddedState({ dataDir, log, clock }) };
}

const owner = { kind: "account", id: "acme" } as const;
const onePerMinute = [{ owner, limits: { requestsPerMinute: 1, tokensPerMinute: null, concurrency: null } }];

describe("the embedded state when the machine's clock is set", () => {
  it.each([-hourMs, hourMs])("by %i ms: limits reset neither early nor late (REL-20)", async (jumpMs) => {
    const { time, open } = machine(noonMs);
    const state = await open();
    expect(await state.ledger.admit(numberedAdmission(1, { scopes: onePerMinute }))).toMatchObject({ admitted: true });
    time.jumpMs = jumpMs;
    expect(await state.ledger.admit(numberedAdmission(2, { scopes: onePerMinute }))).toMatchObject({ admitted: false });
    expect(await state.ledger.sweepLost(10, 60_000)).toEqual([]);
    time.passedMs += 65_000;
    expect(await state.ledger.admit(numberedAdmission(3, { scopes: onePerMinute }))).toMatchObject({ admitted: true });
    expect(await state.ledger.sweepLost(10, 60_000)).toMatchObject([{ requestId: numberedAdmission(1).requestId }]);
    await state.close();
  });

  it("back over midnight: no usage is added to the day that has ended, not even after a restart (USE-6)", async () => {
    const beforeMidnightMs = Date.UTC(2026, 2, 31, 23, 59);
    const { time, open } = machine(beforeMidnightMs);
    const first = await open();
    await first.ledger.settle(numberedSettlement(1));
    time.passedMs += 120_000;
    await first.ledger.settle(numberedSettlement(2));
    time.jumpMs = -4 * minuteMs;
    await first.ledger.settle(numberedSettlement(3));
    await first.close();
    const second = await open();
    await second.ledger.settle(numberedSettlement(4));
    const account = { kind: "account", id: "acme" } as const;
    const requestsOf = async (kind: "day" | "month", atMs: number) =>
      (await second.usage.used("acme", account, periodAt(kind, atMs))).requests;
    expect(await requestsOf("day", beforeMidnightMs)).toBe(1n);
    expect(await requestsOf("month", beforeMidnightMs)).toBe(1n);
    expect(await requestsOf("day", beforeMidnightMs + 120_000)).toBe(3n);
    expect((await second.health()).warnings).toEqual([expect.stringContaining("ahead of this machine's clock")]);
    await second.close();
  });

  it("no settlement counts in the future, and a delayed settlement counts on the day of its end", async () => {
    const { open } = machine(noonMs);
    const state = await open();
    await state.ledger.settle(numberedSettlement(1, { endedAtMs: noonMs + 24 * hourMs }));
    await state.ledger.settle(numberedSettlement(2, { endedAtMs: noonMs - 24 * hourMs }));
    const rows = await state.usage.rows({ account: "acme", width: "day", fromMs: 0, toMs: noonMs * 2 });
    const days = [noonMs - 24 * hourMs, noonMs].map((atMs) => periodAt("day", atMs).startMs);
    expect(rows.map(({ startMs, requests }) => [startMs, requests])).toEqual(days.map((startMs) => [startMs, 1n]));
    await state.close();
  });
});

describe("one jump of the clock by 40 days, after which it is right again", () => {
  const account = { kind: "account", id: "acme" } as const;
  const withEvent = (number: number) => numberedSettlement(number, { event: event(number) });

  it("is reported, usage and deliveries follow the clock again, also after a restart, and a file can be repaired (E-22)", async () => {
    const { time, warned, dataDir, open, now } = machine(noonMs);
    const first = await open();
    await first.endpoints.insert(endpoint("we_1", { account: "acme" }), 10);
    await first.ledger.settle(numberedSettlement(1));
    time.jumpMs = 40 * dayMs;
    await first.ledger.settle(withEvent(2));
    const [held] = (await first.deliveries.claim({ max: 1, leaseMs: 15_000 })).claims;
    await first.deliveries.finish({
      claim: held as Claim,
      result: attemptResult({ startedAtMs: first.now() }),
      outcome: retryIn(30_000),
    });
    await first.ledger.settle(withEvent(3));
    expect(await first.purge(100)).toBe(0);

    time.jumpMs = 0;
    time.passedMs += 1_000;
    expect(first.now()).toBe(now());
    await first.ledger.settle(numberedSettlement(4));
    const today = await first.usage.used("acme", account, periodAt("day", noonMs));
    expect(today.requests).toBe(2n);
    expect((await first.deliveries.claim({ max: 10, leaseMs: 15_000 })).claims.map(({ eventId }) => eventId)).toEqual([
      event(3).id,
    ]);
    time.passedMs += 30_000;
    expect((await first.deliveries.claim({ max: 10, leaseMs: 15_000 })).claims.map(({ eventId }) => eventId)).toContain(
      event(2).id,
    );
    expect(warned).toEqual([
      expect.stringContaining("was set forward by 40 d"),
      expect.stringContaining("was set back by 40 d"),
    ]);
    const { clock, warnings } = await first.health();
    expect(clock).toEqual({ jumps: 2, aheadMs: 40 * dayMs - 31_000 });
    expect(warnings).toEqual([
      expect.stringMatching(/clock was set back by 40 d .* ago/),
      expect.stringMatching(/up to 40 d ahead of this machine's clock.*uis state repair-time/),
    ]);
    await first.close();

    const second = await open();
    expect(second.now()).toBe(now());
    expect(warned.at(-1)).toContain("stored times are ahead of this machine's clock");
    expect((await second.health()).warnings).toEqual([expect.stringContaining("uis state repair-time")]);
    await second.close();

    const { changed, kept } = await repairTimes({ dataDir, nowMs: noonMs + hourMs, log: silentLog });
    expect(changed).toMatchObject({
      settled: 2,
      usage_hours: 1,
      usage_days: 1,
      period_sums: 4,
      deliveries: 1,
      events: 2,
    });
    expect(hoursIn(databaseFile(dataDir))).toEqual([
      [noonMs, 2],
      [noonMs + hourMs, 2],
    ]);
    expect(hoursIn(kept ?? "")).toEqual([
      [noonMs, 2],
      [noonMs + 40 * dayMs, 2],
    ]);
  });
});

/** Requests by the start of their hour. */
function hoursIn(file: string): number[][] {
  const db = openSqlite(file);
  const rows = db.prepare("SELECT start_ms, requests FROM usage_hours ORDER BY start_ms").all();
  db.close();
  return rows.map((row) => [integer(row, "start_ms"), integer(row, "requests")]);
}
