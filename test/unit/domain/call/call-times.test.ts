import { describe, expect, it } from "vitest";
import { CallTimes } from "../../../../src/domain/call/observer.js";

describe("times of a call", () => {
  it("are null until they are measured", () => {
    const times = new CallTimes(100);
    expect([times.engineBeganMs, times.engineMs, times.firstTokenMs, times.tokenGapMs(9)]).toEqual([
      null,
      null,
      null,
      null,
    ]);
    expect(times.queueMs).toBe(0);
    expect(times.sinceArrival(130)).toBe(30);
  });

  it("include the engine's time from its first start to its first end, and the sum of all waits for slots", () => {
    const times = new CallTimes(100);
    times.engineBegan(110, 5);
    times.engineBegan(150, 12);
    times.engineEnded(180);
    times.engineEnded(900);
    expect(times.engineBeganMs).toBe(10);
    expect(times.engineMs).toBe(70);
    expect(times.queueMs).toBe(12);
  });

  it("include the time to first token for streams only", () => {
    const [stream, whole] = [new CallTimes(0), new CallTimes(0)];
    stream.firstContent(40, 1, true);
    whole.firstContent(40, 1, false);
    expect(stream.firstTokenMs).toBe(40);
    expect(whole.firstTokenMs).toBeNull();
  });

  it("include the mean gap of the tokens after the first content", () => {
    const times = new CallTimes(0);
    times.engineBegan(1, 0);
    times.firstContent(10, 3, false);
    times.engineEnded(80);
    expect(times.tokenGapMs(10)).toBe(10);
    expect(times.tokenGapMs(3)).toBeNull();
  });
});
