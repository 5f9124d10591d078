import type { IncomingMessage } from "node:http";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createUploadWatch } from "../../../../src/transports/http/body-limits.js";

interface UploadState {
  complete: boolean;
  destroyed: boolean;
  socket: { bytesRead: number };
}

function setUp() {
  const rate = { min: 1000 };
  const watch = createUploadWatch({
    intervalMs: () => 100,
    bytesPerSecondMin: () => rate.min,
    graceMs: () => 500,
    now: () => Date.now(),
  });
  const state: UploadState = { complete: false, destroyed: false, socket: { bytesRead: 300 } };
  const tooSlow = vi.fn();
  const stop = watch.watch(state as unknown as IncomingMessage, tooSlow);
  return { rate, watch, state, tooSlow, stop };
}

describe("upload watch", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("a body that brings less than the minimum in a span is reported once (SEC-6)", () => {
    const { state, tooSlow } = setUp();
    state.socket.bytesRead += 499;
    vi.advanceTimersByTime(400);
    expect(tooSlow).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1_000);
    expect(tooSlow).toHaveBeenCalledTimes(1);
  });

  it("what came fast at first does not excuse a halt later (SEC-6)", () => {
    const { state, tooSlow } = setUp();
    state.socket.bytesRead += 1_000_000;
    vi.advanceTimersByTime(500);
    expect(tooSlow).not.toHaveBeenCalled();
    vi.advanceTimersByTime(500);
    expect(tooSlow).toHaveBeenCalledTimes(1);
  });

  it("a body at the minimum goes on as long as it takes", () => {
    const { state, tooSlow } = setUp();
    for (let i = 0; i < 50; i += 1) {
      state.socket.bytesRead += 100;
      vi.advanceTimersByTime(100);
    }
    expect(tooSlow).not.toHaveBeenCalled();
  });

  it("a rate that changes holds for bodies that are watched already", () => {
    const { rate, state, tooSlow } = setUp();
    rate.min = 0;
    vi.advanceTimersByTime(500);
    expect(tooSlow).not.toHaveBeenCalled();
    rate.min = 1001;
    state.socket.bytesRead += 500;
    vi.advanceTimersByTime(500);
    expect(tooSlow).toHaveBeenCalledTimes(1);
  });

  it.each(["complete", "destroyed"] as const)("forgets a request that is %s", (end) => {
    const { state, tooSlow, watch } = setUp();
    state[end] = true;
    vi.advanceTimersByTime(1_000);
    expect(tooSlow).not.toHaveBeenCalled();
    expect(watch.size).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("says nothing after it was stopped", () => {
    const { tooSlow, stop } = setUp();
    stop();
    vi.advanceTimersByTime(1_000);
    expect(tooSlow).not.toHaveBeenCalled();
  });
});
