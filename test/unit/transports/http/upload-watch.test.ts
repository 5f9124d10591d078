import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createUploadWatch } from "../../../../src/transports/http/body.js";

function setUp() {
  const limits = { bodyRateMin: 1000, bodyRateGraceMs: 500 };
  const watch = createUploadWatch(limits, () => Date.now());
  const state = { bytes: 300, isOver: false };
  const tooSlow = vi.fn();
  const stop = watch.watch({ bytes: () => state.bytes, isOver: () => state.isOver }, tooSlow);
  return { limits, watch, state, tooSlow, stop };
}

describe("upload watch", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("reports a body once that is slower than the minimum rate (SEC-6)", () => {
    const { state, tooSlow } = setUp();
    state.bytes += 499;
    vi.advanceTimersByTime(400);
    expect(tooSlow).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1_000);
    expect(tooSlow).toHaveBeenCalledTimes(1);
  });

  it("reports a body that stops after a fast start (SEC-6)", () => {
    const { state, tooSlow } = setUp();
    state.bytes += 1_000_000;
    vi.advanceTimersByTime(500);
    expect(tooSlow).not.toHaveBeenCalled();
    vi.advanceTimersByTime(500);
    expect(tooSlow).toHaveBeenCalledTimes(1);
  });

  it("never reports a body at the minimum rate", () => {
    const { state, tooSlow } = setUp();
    for (let i = 0; i < 50; i += 1) {
      state.bytes += 100;
      vi.advanceTimersByTime(100);
    }
    expect(tooSlow).not.toHaveBeenCalled();
  });

  it("applies a changed rate to bodies that are already watched", () => {
    const { limits, state, tooSlow } = setUp();
    limits.bodyRateMin = 0;
    vi.advanceTimersByTime(500);
    expect(tooSlow).not.toHaveBeenCalled();
    limits.bodyRateMin = 1001;
    state.bytes += 500;
    vi.advanceTimersByTime(500);
    expect(tooSlow).toHaveBeenCalledTimes(1);
  });

  it("removes an upload that is over", () => {
    const { state, tooSlow, watch } = setUp();
    state.isOver = true;
    vi.advanceTimersByTime(1_000);
    expect(tooSlow).not.toHaveBeenCalled();
    expect(watch.size).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("reports nothing after it was stopped", () => {
    const { tooSlow, stop } = setUp();
    stop();
    vi.advanceTimersByTime(1_000);
    expect(tooSlow).not.toHaveBeenCalled();
  });
});
