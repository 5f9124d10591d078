import { beforeEach, describe, expect, it } from "vitest";
import type { Logger } from "../../../../src/domain/call/ports.js";
import { StoreGate } from "../../../../src/domain/call/store-gate.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";

describe("StoreGate", () => {
  let clock: FakeClock;
  let lines: string[];
  let gate: StoreGate;
  beforeEach(() => {
    clock = new FakeClock();
    lines = [];
    const note = (_: object, message: string) => void lines.push(message);
    const log: Logger = { ...silentLog, info: note, error: note };
    gate = new StoreGate({ clock, log, says: { away: "away", back: "back" } });
  });
  const fail = (times: number) => {
    for (let time = 0; time < times; time += 1) gate.failed(new Error("no answer"));
  };

  it("is shut by the third failure in a row, but for one call every 200 ms (state RL-16)", () => {
    fail(2);
    expect([gate.isShut, gate.isOpen]).toEqual([false, true]);
    fail(1);
    expect([gate.isShut, gate.isOpen]).toEqual([true, false]);
    clock.advance(200);
    expect([gate.isOpen, gate.isOpen]).toEqual([true, false]);
  });

  it("is open again with the first answer (state RL-17)", () => {
    fail(5);
    gate.answered();
    expect([gate.isShut, gate.isOpen]).toEqual([false, true]);
  });

  it("tells once that the store is away and once that it is back, also of one that answers now and then (state RL-16)", () => {
    for (let call = 0; call < 50; call += 1) {
      clock.advance(100);
      if (call % 2 === 0) fail(1);
      else gate.answered();
    }
    expect([lines, gate.isAway]).toEqual([["away"], true]);
    clock.advance(1_000);
    gate.answered();
    expect([lines, gate.isAway]).toEqual([["away", "back"], false]);
  });
});
