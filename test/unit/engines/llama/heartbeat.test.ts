import { describe, expect, it } from "vitest";
import { Heartbeat } from "../../../../src/engines/llama/child-session.js";
import { FakeClock } from "../../../support/fake-clock.js";

function watch(stallMs: number) {
  const clock = new FakeClock();
  const asked: number[] = [];
  let stalls = 0;
  const heartbeat = new Heartbeat(clock, {
    stallMs,
    ask: (count) => asked.push(count),
    onStall: () => {
      stalls += 1;
    },
  });
  return { clock, asked, heartbeat, stalls: () => stalls };
}

describe("Heartbeat", () => {
  it("asks each second, and calls a silent side hung no later than the stall limit after its last sign (REL-4)", () => {
    const { clock, asked, heartbeat, stalls } = watch(30_000);
    clock.advance(500);
    heartbeat.answered();
    clock.advance(29_499);
    expect(asked).toHaveLength(30);
    expect(stalls()).toBe(0);
    clock.advance(501);
    expect(stalls()).toBe(1);
    expect(clock.pending).toBe(0);
  });

  it("goes on as long as there are answers", () => {
    const { clock, heartbeat, stalls } = watch(5_000);
    for (let second = 0; second < 60; second += 1) {
      heartbeat.answered();
      clock.advance(1_000);
    }
    expect(stalls()).toBe(0);
    heartbeat.stop();
    expect(clock.pending).toBe(0);
  });

  it("asks more often when the limit is short", () => {
    const { clock, asked, stalls } = watch(500);
    clock.advance(399);
    expect(asked).toHaveLength(4);
    clock.advance(101);
    expect(stalls()).toBe(1);
  });

  it("one late timer, as after a pause of this process, is no silence", () => {
    let nowMs = 0;
    let fire = (): void => {};
    const after = (_ms: number, run: () => void) => {
      fire = run;
      return () => {};
    };
    let stalls = 0;
    const clock = { now: () => nowMs, monotonic: () => nowMs, after };
    new Heartbeat(clock, { stallMs: 5_000, ask: () => {}, onStall: () => stalls++ });
    nowMs += 60_000;
    fire();
    expect(stalls).toBe(0);
  });
});
