import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { periodAt } from "../../../src/domain/events/events.js";
import { openEmbeddedState } from "../../../src/state/embedded/state.js";
import { silentLog } from "../../support/silent-log.js";
import { numberedAdmission, numberedSettlement } from "./ledger-requests.js";

const hourMs = 3_600_000;
const noonMs = Date.UTC(2026, 2, 31, 12);

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "uis-clock-"));
});
afterEach(() => rm(root, { recursive: true }));

/** A machine whose clock can be set; `jumpMs` is the size of the jump. */
function machine(wallMs: number) {
  const time = { jumpMs: 0, passedMs: 0 };
  const clock = {
    now: () => wallMs + time.passedMs + time.jumpMs,
    monotonic: () => time.passedMs,
    after: () => () => {},
  };
  return { time, open: () => openEmbeddedState({ dataDir: join(root, "data"), log: silentLog, clock }) };
}

const owner = { kind: "account", id: "acme" } as const;
const onePerMinute = [{ owner, limits: { requestsPerMinute: 1, tokensPerMinute: null, concurrency: null } }];

describe("the embedded state when the machine's clock is set", () => {
  it.each([-hourMs, hourMs])("by %i ms: limits neither reset early nor late (REL-20)", async (jumpMs) => {
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

  it("back over midnight: a day that has ended does not reopen, also after a restart (USE-6)", async () => {
    const beforeMidnightMs = Date.UTC(2026, 2, 31, 23, 59);
    const { time, open } = machine(beforeMidnightMs);
    const first = await open();
    await first.ledger.settle(numberedSettlement(1));
    time.passedMs += 120_000;
    await first.ledger.settle(numberedSettlement(2));
    time.jumpMs = -hourMs;
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

  it("a settlement cannot end in the future, and a delayed one counts on its own day", async () => {
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
