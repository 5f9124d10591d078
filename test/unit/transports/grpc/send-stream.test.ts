import { Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import type { RpcStream } from "../../../../src/domain/rpc/rpc-service.js";
import { AbortSource } from "../../../../src/lib/abort-source.js";
import { StreamBuffer, StreamBuffers } from "../../../../src/lib/collections.js";
import { sendStream } from "../../../../src/transports/grpc/send-stream.js";
import { eventually } from "../../../support/eventually.js";

/** A call that accepts one message each time that the test allows it. */
function createCall() {
  const taken: string[] = [];
  let take: (() => void) | null = null;
  const call = new Writable({
    objectMode: true,
    highWaterMark: 1,
    write(message: string, _encoding, done) {
      taken.push(message);
      take = () => done();
    },
  });
  return {
    call,
    taken,
    takeOne: async () => {
      await eventually(() => take !== null, "a message is there");
      const now = take;
      take = null;
      now?.();
    },
  };
}

function createWatch(buffers = new StreamBuffers({ streamBufferBytesMax: 64 * 1024 })) {
  const seen: string[] = [];
  return {
    seen,
    buffer: new StreamBuffer(buffers),
    abort: new AbortSource(),
    readerFellBehind: () => seen.push("waits"),
    readerCaughtUp: () => seen.push("took"),
  };
}

/** Items that are available immediately; `asked` counts how many were pulled. */
function createItems(items: readonly string[], merge?: RpcStream<string>["merge"]) {
  const asked = { count: 0 };
  async function* pull() {
    for (const item of items) {
      asked.count += 1;
      yield item;
    }
  }
  return { asked, stream: { items: pull(), ...(merge === undefined ? {} : { merge }) } };
}

const join = (a: string, b: string) => (a.length + b.length <= 4 && !`${a}${b}`.includes("!") ? a + b : null);

describe("sendStream", () => {
  it("merges waiting items while the reader is slow, in order and without loss (GRPC-6)", async () => {
    const { call, taken, takeOne } = createCall();
    const { asked, stream } = createItems(["a", "b", "c", "d", "!", "e"], join);
    const sent = sendStream(call, stream, createWatch());
    await eventually(() => asked.count === 5, "all that can be merged was asked for");
    for (let i = 0; i < 4; i++) await takeOne();
    await sent;
    expect(taken).toEqual(["a", "bcd", "!", "e"]);
  });

  it("requests at most one item after the last one that can be merged (GRPC-6)", async () => {
    const { call, taken } = createCall();
    const { asked, stream } = createItems([..."abcdefghij"], join);
    const watch = createWatch();
    const sent = sendStream(call, stream, watch);
    await eventually(() => asked.count === 6, "the merged message is full");
    await new Promise((resolve) => setImmediate(resolve));
    expect(asked.count).toBe(6);
    expect(taken).toEqual(["a"]);
    watch.abort.abort(undefined);
    await expect(sent).rejects.toThrow();
  });

  it("sends one message at a time and merges little while the budget of all streams is used up (REL-1)", async () => {
    const buffers = new StreamBuffers({ streamBufferBytesMax: 64 * 1024 });
    const { call, taken } = createCall();
    const { asked, stream } = createItems(Array(20).fill("a"), (a, b) => a + b);
    const watch = createWatch(buffers);
    buffers.bytes = 1024 * 1024 * 1024;
    const sent = sendStream(call, { ...stream, bytesOf: () => 600 }, watch);
    await eventually(() => asked.count === 4, "two were merged, and one waits");
    await new Promise((resolve) => setImmediate(resolve));
    expect([asked.count, taken]).toEqual([4, ["a"]]);
    watch.abort.abort(undefined);
    await expect(sent).rejects.toThrow();
  });

  it("sends every item as a message if the stream has no merge function", async () => {
    const { call, taken, takeOne } = createCall();
    const sent = sendStream(call, createItems(["a", "b", "c"]).stream, createWatch());
    for (let i = 0; i < 3; i++) await takeOne();
    await sent;
    expect(taken).toEqual(["a", "b", "c"]);
  });

  it("notifies the watch when it waits for the reader and when the reader catches up", async () => {
    const { call, takeOne } = createCall();
    const watch = createWatch();
    const sent = sendStream(call, createItems(["a"]).stream, watch);
    await takeOne();
    await sent;
    expect(watch.seen).toEqual(["waits", "took"]);
  });

  it("sends the items before an error of the source", async () => {
    const { call, taken, takeOne } = createCall();
    async function* items() {
      yield "a";
      yield "b";
      throw new Error("the engine died");
    }
    const sent = sendStream(call, { items: items(), merge: join }, createWatch());
    const failed = expect(sent).rejects.toThrow("the engine died");
    await eventually(() => taken.length === 1, "the first is sent");
    await takeOne();
    await failed;
    expect(taken[0]).toBe("a");
  });
});
