import { describe, expect, it } from "vitest";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { startResponsePurge } from "../../../../src/domain/responses/response-purge.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { storedResponse } from "../../../support/records.js";
import { silentLog } from "../../../support/silent-log.js";

const minuteMs = 60_000;

async function open(count: number) {
  const clock = new FakeClock();
  const { responses: store } = openMemoryState({ clock });
  const put = async (first: number, last: number) => {
    for (let number = first; number <= last; number += 1) {
      await store.put(storedResponse(number, { createdAtMs: clock.now() }), 10_000);
    }
  };
  await put(1, count);
  /** Advances the time, and lets each step of the purge end before the next one is due. */
  const advance = async (ms: number) => {
    for (const until = clock.now() + ms; clock.now() < until; ) {
      clock.advance(Math.min(50, until - clock.now()));
      await new Promise(setImmediate);
    }
  };
  const isStored = async (number: number) => (await store.get("a", `resp_${number}`)) !== null;
  const start = (keepMs: number, port: Pick<typeof store, "purge"> = store) =>
    startResponsePurge({ store: port, clock, now: () => clock.now(), keepMs, log: silentLog });
  return { clock, store, put, advance, isStored, start };
}

describe("the purge of stored responses", () => {
  it("removes responses within a minute after their expiry, and not before (RSP-27)", async () => {
    const { put, advance, isStored, start, clock } = await open(250);
    const stop = start(10 * minuteMs);
    await advance(5 * minuteMs);
    await put(251, 251);
    await advance(5 * minuteMs - 1);
    expect([await isStored(1), await isStored(250)]).toEqual([true, true]);
    await advance(minuteMs);
    expect([await isStored(1), await isStored(250), await isStored(251)]).toEqual([false, false, true]);
    await advance(5 * minuteMs);
    expect(await isStored(251)).toBe(false);
    stop();
    expect(clock.pending).toBe(0);
  });

  it("removes all responses if storing is turned off, then ends", async () => {
    const { advance, isStored, start, clock } = await open(250);
    start(0);
    await advance(1_000);
    expect([await isStored(1), await isStored(250)]).toEqual([false, false]);
    expect(clock.pending).toBe(0);
  });

  it("continues after an outage of the store", async () => {
    const { store, advance, isStored, start } = await open(1);
    let fails = true;
    const purge: typeof store.purge = (beforeMs, max) =>
      fails ? Promise.reject(new ServiceError("storage_unavailable", "away")) : store.purge(beforeMs, max);
    start(minuteMs, { purge });
    await advance(2 * minuteMs);
    expect(await isStored(1)).toBe(true);
    fails = false;
    await advance(minuteMs);
    expect(await isStored(1)).toBe(false);
  });
});
