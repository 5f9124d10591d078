import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, expect, it, vi } from "vitest";
import { SseWriter, sseEvent, sseKeepAliveComment } from "../../../../src/transports/http/sse.js";

/** A response that records writes, and whose reader is slow when the test wants it. */
class RecordedResponse extends EventEmitter {
  readonly writes: string[] = [];
  writableNeedDrain = false;
  writableEnded = false;
  destroyed = false;

  write(text: string): boolean {
    this.writes.push(text);
    return !this.writableNeedDrain;
  }

  end(text: string): void {
    this.writes.push(text);
    this.writableEnded = true;
  }

  drain(): void {
    this.writableNeedDrain = false;
    this.emit("drain");
  }
}

function setUp() {
  const res = new RecordedResponse();
  const written = vi.fn();
  const sse = new SseWriter(res as unknown as ServerResponse, written);
  return { res, written, sse };
}

const nextTick = () => new Promise<void>((resolve) => process.nextTick(resolve));

describe("SSE writer", () => {
  it("sends the text of one tick of the event loop in one write at the end of the tick (SSE-10)", async () => {
    const { res, sse, written } = setUp();
    sse.write(sseEvent("1"));
    sse.write(sseEvent("2"));
    expect(res.writes).toEqual([]);
    await nextTick();
    expect(res.writes).toEqual(["data: 1\n\ndata: 2\n\n"]);
    expect(written).toHaveBeenCalledTimes(1);
  });

  it("writes nothing while the reader is behind (REL-1)", async () => {
    const { res, sse } = setUp();
    res.writableNeedDrain = true;
    sse.write(sseEvent("1"));
    await nextTick();
    expect(sse.isBehind).toBe(true);
    expect(res.writes).toEqual([]);
    const drained = sse.drained(new AbortController().signal);
    res.drain();
    await drained;
    expect(res.writes).toEqual([sseEvent("1")]);
    expect(sse.isBehind).toBe(false);
  });

  it("makes a producer wait that writes too much in one tick (REL-1)", () => {
    const { sse } = setUp();
    for (let i = 0; i < 20; i += 1) sse.write(sseEvent("x".repeat(1_000)));
    expect(sse.isBehind).toBe(true);
  });

  it.each(["abort", "close"])("stops waiting for a reader on the event %s", async (end) => {
    const { res, sse } = setUp();
    const abort = new AbortController();
    res.writableNeedDrain = true;
    const drained = sse.drained(abort.signal);
    if (end === "abort") abort.abort();
    else {
      res.destroyed = true;
      res.emit("close");
    }
    await drained;
    expect(res.listenerCount("drain")).toBe(0);
    expect(res.listenerCount("close")).toBe(0);
  });

  it("sends no keep-alive while text waits to be written or the reader is behind (SSE-8)", async () => {
    const { res, sse } = setUp();
    sse.write(sseEvent("1"));
    sse.keepAlive(() => sseKeepAliveComment);
    await nextTick();
    res.writableNeedDrain = true;
    sse.keepAlive(() => sseKeepAliveComment);
    await nextTick();
    expect(res.writes).toEqual([sseEvent("1")]);
    res.writableNeedDrain = false;
    sse.keepAlive(() => sseKeepAliveComment);
    await nextTick();
    expect(res.writes).toEqual([sseEvent("1"), ": keep-alive\n"]);
  });

  it("sends the end with the collected text, and nothing after it (SSE-4)", async () => {
    const { res, sse } = setUp();
    sse.write(sseEvent("1"));
    sse.end(sseEvent("[DONE]"));
    sse.write(sseEvent("2"));
    sse.end("again");
    await nextTick();
    expect(res.writes).toEqual(["data: 1\n\ndata: [DONE]\n\n"]);
  });

  it("writes nothing to a closed response", async () => {
    const { res, sse } = setUp();
    sse.write(sseEvent("1"));
    res.destroyed = true;
    sse.end("end");
    await nextTick();
    expect(res.writes).toEqual([]);
  });
});
