import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import type { Ledger, Settlement } from "../../../../src/domain/metering/ledger.js";
import { SpoolReplay } from "../../../../src/domain/metering/resilient-ledger.js";
import { createSystemClock } from "../../../../src/lib/clock.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { FileSpool } from "../../../../src/state/spool/file-spool.js";
import { eventually } from "../../../support/eventually.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";

function settlement(number: number, endedAtMs: number): Settlement {
  return {
    requestId: `req_${number}`,
    account: "a",
    keyId: null,
    model: "m",
    operation: "create_chat_completion",
    why: "completed",
    error: null,
    promptTokens: 1,
    completionTokens: 1,
    cachedTokens: 0,
    costNano: 0,
    latencyMs: 1,
    degraded: true,
    event: null,
    thresholds: [],
    endedAtMs,
  };
}

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "uis-replay-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const endedAtMs = Date.UTC(2026, 2, 1, 23, 59);

describe("SpoolReplay", () => {
  it("writes every spooled settlement exactly once when the store answers again, under the day of its end (USE-11)", async () => {
    const state = openMemoryState({ clock: new FakeClock(Date.UTC(2026, 2, 2, 12)) });
    const spool = await FileSpool.open({ folder, spillDir: null, sizeMax: 1_000, log: silentLog });
    await Promise.all(Array.from({ length: 200 }, (_, i) => spool.append(settlement(i, endedAtMs))));
    let isUp = false;
    let answers = 0;
    const ledger: Pick<Ledger, "settle"> = {
      async settle(each) {
        if (!isUp) throw new ServiceError("storage_unavailable", "unavailable");
        const settled = await state.ledger.settle(each);
        answers += 1;
        // One answer of the store is lost, so the batch is repeated.
        if (answers === 70) throw new ServiceError("storage_unavailable", "unavailable");
        return settled;
      },
    };
    let told = 0;
    const onAnswered = () => {
      told += 1;
    };
    const promptMs = Number.POSITIVE_INFINITY;
    const replay = new SpoolReplay({ ledger, spool, clock: createSystemClock(), log: silentLog, onAnswered, promptMs });
    expect(told).toBe(0);
    isUp = true;
    await eventually(() => spool.size === 0, "an empty spool");
    await replay.close();
    await spool.close();
    const rows = await state.usage.rows({ account: "a", width: "day", fromMs: 0, toMs: 1e15 });
    expect(rows).toMatchObject([{ startMs: Date.UTC(2026, 2, 1), requests: 200n, promptTokens: 200n }]);
    expect(answers).toBeGreaterThan(200);
    expect(told).toBeGreaterThan(0);
  });

  it("empties the spool into a slow store in the background, without making requests wait for it again (E-28)", async () => {
    const clock = new FakeClock();
    const spool = await FileSpool.open({ folder, spillDir: null, sizeMax: 1_000, log: silentLog });
    let tookMs = 251;
    const modes: (boolean | undefined)[] = [];
    const ledger: Pick<Ledger, "settle"> = {
      async settle(_, inBackground) {
        modes.push(inBackground);
        clock.advance(tookMs);
        return { duplicate: false, crossed: [] };
      },
    };
    let answered = 0;
    const onAnswered = () => {
      answered += 1;
    };
    const replay = new SpoolReplay({ ledger, spool, clock, log: silentLog, onAnswered, promptMs: 250 });
    const replayed = async (number: number) => {
      await spool.append(settlement(number, endedAtMs));
      clock.advance(250);
      await eventually(() => spool.size === 0, "an empty spool");
    };
    await replayed(1);
    expect(answered).toBe(0);
    tookMs = 250;
    await replayed(2);
    expect(answered).toBe(1);
    expect(modes).toEqual([true, true]);
    await replay.close();
    await spool.close();
  });

  it("logs once a minute how many settlements are only in memory; close waits up to 10 s for a writable disk (E-21)", async () => {
    const clock = new FakeClock();
    const lines: object[] = [];
    const log = { ...silentLog, error: (fields: object) => lines.push(fields) };
    const spool = await FileSpool.open({
      folder: join(folder, "spool"),
      spillDir: null,
      sizeMax: 1_000,
      log: silentLog,
    });
    await rm(join(folder, "spool"), { recursive: true });
    const ledger = { settle: () => Promise.reject(new ServiceError("storage_unavailable", "full")) };
    const replay = new SpoolReplay({ ledger, spool, clock, log, onAnswered: () => {}, promptMs: 250 });
    for (const number of [1, 2]) await spool.append(settlement(number, endedAtMs));
    const tick = async (): Promise<void> => {
      clock.advance(250);
      await new Promise((resolve) => setTimeout(resolve, 2));
    };
    while (lines.length === 0) await tick();
    for (let turn = 0; turn < 8; turn++) await tick();
    expect(lines).toEqual([{ settlements: 2, fault: expect.stringContaining("ENOENT") }]);
    clock.advance(60_000);
    while (lines.length === 1) await tick();
    expect(lines).toHaveLength(2);

    let isClosed = false;
    const startedAtMs = clock.monotonic();
    const closed = replay.close().then(() => {
      isClosed = true;
    });
    while (!isClosed) await tick();
    await closed;
    expect(clock.monotonic() - startedAtMs).toBeGreaterThanOrEqual(10_000);
    expect(await spool.close()).toBe(2);
  });
});
