import { describe, expect, it } from "vitest";
import { startHeartbeat } from "../../../../src/engines/llama/child-session.js";
import { FakeClock } from "../../../support/fake-clock.js";

function watch(stallMs: number) {
  const clock = new FakeClock();
  const pings: number[] = [];
  let stalls = 0;
  const heartbeat = startHeartbeat(clock, {
    stallMs,
    ping: (count) => pings.push(count),
    onStall: () => {
      stalls += 1;
    },
  });
  return { clock, pings, heartbeat, stalls: () => stalls };
}

describe("startHeartbeat", () => {
  it("pings each second, and reports a stall within the stall limit after the last answer (REL-4)", () => {
    const { clock, pings, heartbeat, stalls } = watch(30_000);
    clock.advance(500);
    heartbeat.answered();
    clock.advance(29_499);
    expect(pings).toHaveLength(30);
    expect(stalls()).toBe(0);
    clock.advance(501);
    expect(stalls()).toBe(1);
    expect(clock.pending).toBe(0);
  });

  it("reports no stall as long as pings are answered", () => {
    const { clock, heartbeat, stalls } = watch(5_000);
    for (let second = 0; second < 60; second += 1) {
      heartbeat.answered();
      clock.advance(1_000);
    }
    expect(stalls()).toBe(0);
    heartbeat.stop();
    expect(clock.pending).toBe(0);
  });

  it("pings more often if the stall limit is short", () => {
    const { clock, pings, stalls } = watch(500);
    clock.advance(399);
    expect(pings).toHaveLength(4);
    clock.advance(101);
    expect(stalls()).toBe(1);
  });

  it("reports no stall after one late timer, which a suspension of this process causes", () => {
    let nowMs = 0;
    let fire = (): void => {};
    const after = (_ms: number, run: () => void) => {
      fire = run;
      return () => {};
    };
    let stalls = 0;
    const clock = { now: () => nowMs, monotonic: () => nowMs, after };
    startHeartbeat(clock, { stallMs: 5_000, ping: () => {}, onStall: () => stalls++ });
    nowMs += 60_000;
    fire();
    expect(stalls).toBe(0);
  });
});
