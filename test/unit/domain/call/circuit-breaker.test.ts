import { beforeEach, describe, expect, it } from "vitest";
import { CircuitBreaker } from "../../../../src/domain/call/circuit-breaker.js";
import type { Logger } from "../../../../src/domain/call/ports.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";

describe("CircuitBreaker", () => {
  let clock: FakeClock;
  let lines: string[];
  let breaker: CircuitBreaker;
  beforeEach(() => {
    clock = new FakeClock();
    lines = [];
    const note = (_: object, message: string) => void lines.push(message);
    const log: Logger = { ...silentLog, info: note, error: note };
    breaker = new CircuitBreaker({ clock, log, messages: { unavailable: "away", recovered: "back" } });
  });
  const fail = (times: number) => {
    for (let time = 0; time < times; time += 1) breaker.failed(new Error("no answer"));
  };

  it("opens after the third consecutive failure, except for one probe every 200 ms (state RL-16)", () => {
    fail(2);
    expect([breaker.isOpen, breaker.allowsCall]).toEqual([false, true]);
    fail(1);
    expect([breaker.isOpen, breaker.allowsCall]).toEqual([true, false]);
    clock.advance(200);
    expect([breaker.allowsCall, breaker.allowsCall]).toEqual([true, false]);
  });

  it("closes with the first successful call (state RL-17)", () => {
    fail(5);
    breaker.succeeded();
    expect([breaker.isOpen, breaker.allowsCall]).toEqual([false, true]);
  });

  it("logs once that the store is unavailable and once that it has recovered, even if some calls succeed during the outage (state RL-16)", () => {
    for (let call = 0; call < 50; call += 1) {
      clock.advance(100);
      if (call % 2 === 0) fail(1);
      else breaker.succeeded();
    }
    expect([lines, breaker.isUnavailable]).toEqual([["away"], true]);
    clock.advance(1_000);
    breaker.succeeded();
    expect([lines, breaker.isUnavailable]).toEqual([["away", "back"], false]);
  });
});
