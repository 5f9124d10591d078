import { describe, expect, it } from "vitest";
import { CircuitBreaker, RestartDelay } from "../../../../src/engines/llama/supervisor.js";

const minuteMs = 60_000;

describe("CircuitBreaker", () => {
  it("opens after one crash more than the limit within five minutes (REL-4)", () => {
    const circuit = new CircuitBreaker(5);
    for (let i = 0; i < 5; i += 1) expect(circuit.crashed(i * 1_000)).toBe(false);
    expect(circuit.crashed(5_000)).toBe(true);
  });

  it("does not count crashes older than five minutes (REL-4)", () => {
    const circuit = new CircuitBreaker(1);
    expect(circuit.crashed(0)).toBe(false);
    expect(circuit.crashed(5 * minuteMs)).toBe(false);
    expect(circuit.crashed(5 * minuteMs + 1)).toBe(true);
  });

  it("stays open for 10 s, and each time twice as long, at most five minutes (REL-4)", () => {
    const circuit = new CircuitBreaker(0);
    let nowMs = 0;
    const coolDowns = Array.from({ length: 7 }, () => {
      const coolDownMs = circuit.open(nowMs);
      nowMs += coolDownMs + 1_000;
      return coolDownMs;
    });
    expect(coolDowns).toEqual([10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
  });

  it("stays open for 10 s again if it opens five minutes after a cool-down (REL-4)", () => {
    const circuit = new CircuitBreaker(0);
    circuit.open(0);
    expect(circuit.open(10_000 + 5 * minuteMs)).toBe(20_000);
    expect(circuit.open(30_000 + 10 * minuteMs + 1)).toBe(10_000);
  });
});

describe("RestartDelay", () => {
  it("doubles from 100 ms to 5 s, and is 100 ms again after a child that ran for ten seconds", () => {
    const delay = new RestartDelay();
    expect([0, 0, 9_999, 0, 0, 0, 0, 0].map((lifeMs) => delay.after(lifeMs))).toEqual([
      100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000,
    ]);
    expect(delay.after(10_000)).toBe(100);
    expect(delay.after(0)).toBe(200);
  });
});
