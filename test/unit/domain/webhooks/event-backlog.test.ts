import { expect, it } from "vitest";
import { startFanOut, watchEventBacklog } from "../../../../src/domain/webhooks/event-backlog.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { keptLog } from "./dispatch-fixture.js";

it("a backlog of events is logged once, and its end is logged once (E-30)", async () => {
  const clock = new FakeClock();
  const log = keptLog();
  let waiting: { events: number; oldestAtMs: number | null } | null = { events: 3, oldestAtMs: clock.now() + 55_000 };
  const waitingEvents = async () => {
    if (waiting === null) throw new Error("away");
    return waiting;
  };
  const stop = watchEventBacklog({ queue: { waitingEvents }, clock, now: () => clock.now(), log });
  const pass = async (ms: number): Promise<void> => {
    for (let passedMs = 0; passedMs < ms; passedMs += 10_000) {
      clock.advance(10_000);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
  };
  await pass(60_000);
  expect(log.lines).toEqual([]);
  await pass(30_000);
  expect(log.lines).toMatchObject([{ level: "warn", fields: { events: 3, oldest_s: 15 } }]);
  waiting = null;
  await pass(20_000);
  waiting = { events: 1, oldestAtMs: clock.now() + 9_500 };
  await pass(10_000);
  expect(log.lines.map(({ level }) => level)).toEqual(["warn", "info"]);
  stop();
  waiting = { events: 9, oldestAtMs: 0 };
  await pass(60_000);
  expect(log.lines).toHaveLength(2);
});

it("a process that sends no webhooks creates the deliveries of events, in steps, until it stops (E-30)", async () => {
  const clock = new FakeClock();
  const left = [true, true, false];
  let calls = 0;
  const fanOut = async () => {
    calls += 1;
    if (calls === 2) throw new Error("away");
    return left.shift() ?? false;
  };
  const stop = startFanOut({ queue: { fanOut }, clock, log: keptLog() });
  const callsAfter = async (ms: number): Promise<number> => {
    clock.advance(ms);
    await new Promise<void>((resolve) => setImmediate(resolve));
    return calls;
  };
  const seen: number[] = [];
  for (const ms of [500, 20, 20, 480, 20, 20]) seen.push(await callsAfter(ms));
  expect(seen).toEqual([1, 2, 2, 3, 4, 4]);
  stop();
  expect(await callsAfter(60_000)).toBe(4);
});
