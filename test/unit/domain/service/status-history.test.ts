import { expect, it } from "vitest";
import type { CallCounts } from "../../../../src/domain/call/observer.js";
import { historyRanges, StatusHistory } from "../../../../src/domain/service/status-history.js";
import { FakeClock } from "../../../support/fake-clock.js";

const minuteMs = 60_000;

/** A history over counters that the test sets; each request costs 5 nano-dollars. */
function world() {
  const clock = new FakeClock();
  const at = { requests: 0, stepMs: 0 };
  const history = new StatusHistory({
    clock: { now: () => clock.now() + at.stepMs, after: (ms, run) => clock.after(ms, run) },
    calls: {
      counts: (): CallCounts => ({
        requests: at.requests,
        failed: 0,
        rejected: 0,
        clientLeft: 0,
        promptTokens: 2 * at.requests,
        completionTokens: 3 * at.requests,
      }),
      durations: () => ({ since: () => [] }),
    },
    chargedNano: () => 5 * at.requests,
  });
  const pass = async (minutes: number, requestsEach: number): Promise<void> => {
    for (let minute = 0; minute < minutes; minute++) {
      at.requests += requestsEach;
      await clock.advance(minuteMs);
    }
  };
  return { clock, at, history, pass };
}

const requestsOf = ({ history }: ReturnType<typeof world>, range: keyof typeof historyRanges) =>
  history.of(range).parts.map(({ counts }) => counts.requests);

it("a new history has one part, which ends now", () => {
  const { clock, at, history } = world();
  at.requests = 3;
  const { parts, total } = history.of("hour");
  expect(parts).toEqual([total]);
  expect(total).toMatchObject({ endMs: clock.now(), counts: { requests: 3, promptTokens: 6, costNano: 15 } });
});

it("the history of the hour gets a new part each minute, and its total is their sum", async () => {
  const own = world();
  await own.pass(3, 4);
  own.at.requests += 1;
  expect(requestsOf(own, "hour")).toEqual([4, 4, 4, 1]);
  expect(own.history.of("hour").total.counts).toMatchObject({ requests: 13, completionTokens: 39, costNano: 65 });
});

it("the parts of a day last 15 minutes and those of a week an hour, aligned to whole quarter-hours and hours", async () => {
  const own = world();
  await own.pass(120, 1);
  const { parts } = own.history.of("day");
  for (const { startMs } of parts.slice(1)) expect(startMs % historyRanges.day.widthMs).toBe(0);
  for (const { startMs } of own.history.of("week").parts.slice(1)) {
    expect(startMs % historyRanges.week.widthMs).toBe(0);
  }
  expect(own.history.of("day").total.counts.requests).toBe(120);
  expect(own.history.of("week").total.counts.requests).toBe(120);
  expect(own.history.of("hour").total.counts.requests).toBe(60);
});

it("the number of kept parts of each range is bounded, however long the process runs", async () => {
  const own = world();
  await own.pass(9 * 24 * 60, 1);
  for (const range of ["hour", "day", "week"] as const) {
    const { parts, total } = own.history.of(range);
    const { parts: complete, widthMs } = historyRanges[range];
    expect(parts).toHaveLength(complete + 1);
    expect(total.endMs - total.startMs).toBeLessThan((complete + 1) * widthMs);
    expect(total.counts.requests).toBeGreaterThanOrEqual((complete * widthMs) / minuteMs);
  }
});

it("readings from before the range are dropped, as after the clock was set forward", async () => {
  const own = world();
  await own.pass(5, 1);
  own.at.stepMs = 10 * 24 * 60 * minuteMs;
  await own.pass(2, 1);
  expect(own.history.of("hour").total.counts.requests).toBe(1);
});

it("a closed history keeps no timer", async () => {
  const own = world();
  own.history.close();
  await own.pass(5, 1);
  expect(requestsOf(own, "hour")).toEqual([5]);
});
