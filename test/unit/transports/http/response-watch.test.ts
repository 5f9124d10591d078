import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createResponseWatch } from "../../../../src/transports/http/answer.js";

/** The part of a response that the watch reads. */
class ResponseState extends EventEmitter {
  writableNeedDrain = false;
  writableEnded = false;
  writableFinished = false;

  asResponse(): ServerResponse {
    return this as unknown as ServerResponse;
  }
}

function setUp() {
  const limits = { stallMs: 100, sseKeepAliveMs: 40 };
  const watch = createResponseWatch(limits, () => Date.now());
  const response = new ResponseState();
  const stalled = vi.fn();
  const silent = vi.fn();
  const watched = watch.watch(response.asResponse(), { stalled, silent });
  return { limits, watch, response, watched, stalled, silent };
}

describe("response watch", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("reports a reader once that reads nothing for the stall time (REL-1)", () => {
    const { response, stalled, watch } = setUp();
    response.writableNeedDrain = true;
    vi.advanceTimersByTime(100);
    expect(stalled).not.toHaveBeenCalled();
    vi.advanceTimersByTime(200);
    expect(stalled).toHaveBeenCalledTimes(1);
    expect(watch.size).toBe(0);
  });

  it("does not report a reader that reads slowly", () => {
    const { response, stalled } = setUp();
    response.writableNeedDrain = true;
    for (let i = 0; i < 10; i += 1) {
      vi.advanceTimersByTime(90);
      response.emit("drain");
    }
    expect(stalled).not.toHaveBeenCalled();
  });

  it("reports a reader of a stream whose last write is too short to fill the response's buffer (REL-1)", () => {
    const { response, stalled, limits } = setUp();
    let isSending = true;
    const watch = createResponseWatch({ ...limits, sseKeepAliveMs: 1_000 }, () => Date.now());
    const watched = watch.watch(response.asResponse(), { stalled, isSending: () => isSending });
    vi.advanceTimersByTime(90);
    watched.touched();
    vi.advanceTimersByTime(90);
    isSending = false;
    vi.advanceTimersByTime(200);
    expect(stalled).not.toHaveBeenCalled();
    isSending = true;
    vi.advanceTimersByTime(150);
    expect(stalled).toHaveBeenCalledTimes(1);
  });

  it("reports a reader that does not read the last bytes of an ended answer (REL-1)", () => {
    const { response, stalled } = setUp();
    response.writableEnded = true;
    vi.advanceTimersByTime(300);
    expect(stalled).toHaveBeenCalledTimes(1);
  });

  it("never reports an answer that was read completely", () => {
    const { response, stalled } = setUp();
    response.writableEnded = true;
    response.writableFinished = true;
    vi.advanceTimersByTime(1_000);
    expect(stalled).not.toHaveBeenCalled();
  });

  it("reports a silent stream after each keep-alive time (SSE-8)", () => {
    const { silent, watched } = setUp();
    vi.advanceTimersByTime(30);
    watched.touched();
    vi.advanceTimersByTime(30);
    expect(silent).not.toHaveBeenCalled();
    vi.advanceTimersByTime(10);
    expect(silent).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(40);
    expect(silent).toHaveBeenCalledTimes(2);
  });

  it("applies changed times to responses that are already watched", () => {
    const { limits, response, stalled, silent } = setUp();
    Object.assign(limits, { stallMs: 40, sseKeepAliveMs: 20 });
    response.writableNeedDrain = true;
    vi.advanceTimersByTime(19);
    expect(silent, "from the check that was due").not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(silent).toHaveBeenCalledTimes(1);
    vi.advanceTimersByTime(20);
    expect(silent).toHaveBeenCalledTimes(2);
    vi.advanceTimersByTime(9);
    expect(stalled).not.toHaveBeenCalled();
    vi.advanceTimersByTime(1);
    expect(stalled).toHaveBeenCalledTimes(1);
    expect(vi.getTimerCount()).toBe(1);
  });

  it("reports nothing for a response whose watch has ended, and stops its timer", () => {
    const { response, silent, stalled, watched, watch } = setUp();
    response.writableNeedDrain = true;
    watched.done();
    expect(watch.size).toBe(0);
    expect(response.listenerCount("drain")).toBe(0);
    vi.advanceTimersByTime(500);
    expect(silent).not.toHaveBeenCalled();
    expect(stalled).not.toHaveBeenCalled();
    expect(vi.getTimerCount()).toBe(0);
  });

  it("has one timer for any number of responses", () => {
    const { watch } = setUp();
    for (let i = 0; i < 100; i += 1) watch.watch(new ResponseState().asResponse(), { stalled: () => {} });
    expect(watch.size).toBe(101);
    expect(vi.getTimerCount()).toBe(1);
    watch.close();
    expect(vi.getTimerCount()).toBe(0);
  });
});
