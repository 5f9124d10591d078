import { EventEmitter, once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { describe, expect, it, vi } from "vitest";
import { StreamBuffer, StreamBuffers } from "../../../../src/lib/collections.js";
import { StreamWriter, sseEvent, sseKeepAliveComment } from "../../../../src/transports/http/stream.js";

/** A response that records writes, and whose reader is slow when the test wants it. */
class RecordedResponse extends EventEmitter {
  readonly writes: string[] = [];
  readonly encodings: string[] = [];
  isRead = true;
  writableEnded = false;
  destroyed = false;
  #sent: (() => void) | null = null;

  write(text: string, encoding: string, sent: () => void): boolean {
    this.writes.push(text);
    this.encodings.push(encoding);
    this.#sent = sent;
    if (this.isRead) process.nextTick(() => this.drain());
    return true;
  }

  end(): void {
    this.writableEnded = true;
  }

  /** The kernel has taken the last write. */
  drain(): void {
    const sent = this.#sent;
    this.#sent = null;
    sent?.();
  }
}

function setUp(buffers = new StreamBuffers({ streamBufferBytesMax: 64 * 1024 })) {
  const res = new RecordedResponse();
  const written = vi.fn();
  const buffer = new StreamBuffer(buffers);
  const sse = new StreamWriter(res as unknown as ServerResponse, { buffer, written });
  return { res, written, sse, buffers };
}

const nextTick = () => new Promise<void>((resolve) => process.nextTick(resolve));
const signal = new AbortController().signal;

describe("the writer of a stream", () => {
  it("sends the text of one tick of the event loop in one write at the end of the tick (SSE-10)", async () => {
    const { res, sse, written } = setUp();
    sse.write(sseEvent("1"));
    sse.write(sseEvent("2"));
    expect(res.writes).toEqual([]);
    await nextTick();
    expect(res.writes).toEqual(["data: 1\n\ndata: 2\n\n"]);
    expect(written).toHaveBeenCalledTimes(1);
  });

  it("makes the next write only when the kernel has taken the last, with what was collected meanwhile (REL-1)", async () => {
    const { res, sse, buffers } = setUp();
    res.isRead = false;
    sse.write(sseEvent("1"));
    await nextTick();
    expect([sse.isSending, sse.isBehind]).toEqual([true, true]);
    expect(buffers.bytes).toBe(sseEvent("1").length);
    sse.write(sseEvent("2"));
    const drained = sse.drained(signal);
    await nextTick();
    expect(res.writes).toEqual([sseEvent("1")]);
    res.isRead = true;
    res.drain();
    await drained;
    expect([sse.isBehind, buffers.bytes]).toEqual([false, 0]);
    sse.write(sseEvent("3"));
    await nextTick();
    expect(res.writes).toEqual([sseEvent("1"), sseEvent("2") + sseEvent("3")]);
  });

  it("makes a producer wait that writes 16 KiB in one tick, or 1 KiB while the budget of all streams is used up (REL-1)", () => {
    const { sse } = setUp();
    const event = sseEvent("x".repeat(500));
    for (let i = 0; i < 30; i += 1) sse.write(event);
    expect(sse.isBehind).toBe(false);
    for (let i = 0; i < 3; i += 1) sse.write(event);
    expect(sse.isBehind).toBe(true);

    const full = new StreamBuffers({ streamBufferBytesMax: 64 * 1024 });
    full.bytes = 32 * 1024 * 1024;
    const other = setUp(full).sse;
    other.write(event);
    expect(other.isBehind).toBe(false);
    other.write(event);
    other.write(event);
    expect(other.isBehind).toBe(true);
  });

  it("writes text of one byte for each character as Latin-1, which needs a third of the memory", async () => {
    const { res, sse } = setUp();
    sse.write("plain");
    await nextTick();
    await nextTick();
    sse.write("naïve");
    await nextTick();
    expect(res.encodings).toEqual(["latin1", "utf8"]);
  });

  it.each(["abort", "close"])("stops waiting for a reader on the event %s", async (end) => {
    const { res, sse } = setUp();
    const abort = new AbortController();
    res.isRead = false;
    sse.write(sseEvent("1"));
    const drained = sse.drained(abort.signal);
    if (end === "abort") abort.abort();
    else {
      res.destroyed = true;
      res.emit("close");
    }
    await drained;
    expect(res.listenerCount("close")).toBe(0);
  });

  it("sends no keep-alive while text waits to be written or the reader is behind (SSE-8)", async () => {
    const { res, sse } = setUp();
    res.isRead = false;
    sse.write(sseEvent("1"));
    sse.keepAlive(() => sseKeepAliveComment);
    await nextTick();
    sse.keepAlive(() => sseKeepAliveComment);
    await nextTick();
    expect(res.writes).toEqual([sseEvent("1")]);
    res.drain();
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

  describe("on a connection", () => {
    /** Calls of the socket's `write` for one answer, and the bytes that the client receives. */
    async function answer(version: string, use: (sse: StreamWriter) => Promise<void>) {
      const writes: string[] = [];
      const server = createServer((_, res) => {
        const write = vi.spyOn(res.socket as Socket, "write");
        const sse = new StreamWriter(res, {
          buffer: new StreamBuffer(new StreamBuffers({ streamBufferBytesMax: 64 * 1024 })),
          written: () => {},
        });
        sse.begin(["content-type", "text/event-stream"]);
        void use(sse).then(() => {
          for (const [text] of write.mock.calls) writes.push(String(text));
        });
      });
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
      socket.end(`GET / HTTP/${version}\r\nHost: x\r\nConnection: close\r\n\r\n`);
      const received = await text(socket);
      server.close();
      return { writes: writes.filter((each) => each !== ""), received };
    }

    const twoEvents = async (sse: StreamWriter): Promise<void> => {
      sse.write("ä1");
      await nextTick();
      await nextTick();
      sse.write("2");
      await nextTick();
      sse.end("3");
    };

    it("sends the head in one write with the text of its tick, and each chunk in one write (SSE-1, SSE-10)", async () => {
      const { writes, received } = await answer("1.1", twoEvents);
      expect(writes).toEqual([
        expect.stringMatching(/^HTTP\/1\.1 200 OK\r\n.*transfer-encoding: chunked\r\n\r\n3\r\nä1\r\n$/is),
        "1\r\n2\r\n",
        "1\r\n3\r\n0\r\n\r\n",
      ]);
      expect(received).toBe(writes.join(""));
    });

    it("sends the head at the end of the tick if there is no text, and ends without text (SSE-10)", async () => {
      const { writes } = await answer("1.1", async (sse) => {
        await nextTick();
        sse.end("");
      });
      expect(writes).toEqual([expect.stringMatching(/^HTTP\/1\.1 200 OK\r\n.*\r\n\r\n$/s), "0\r\n\r\n"]);
    });

    it("sends no chunks to a client of HTTP/1.0, whose answer ends with its connection (SSE-1)", async () => {
      const { received } = await answer("1.0", twoEvents);
      expect(received.toLowerCase()).not.toContain("transfer-encoding");
      expect(received.slice(received.indexOf("\r\n\r\n"))).toBe("\r\n\r\nä123");
    });
  });
});
