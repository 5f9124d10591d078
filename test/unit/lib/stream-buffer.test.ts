import { describe, expect, it } from "vitest";
import { BoundedQueue, StreamBuffer, StreamBuffers } from "../../../src/lib/collections.js";

const KiB = 1024;
const budget = 16 * KiB * KiB;
const limits = () => ({ streamBufferBytesMax: 64 * KiB });

/** Fills a queue as an engine does, and returns its weight when the engine pauses. */
function fill(queue: BoundedQueue<number>, itemBytes: number): number {
  let bytes = 0;
  for (; !queue.full; bytes += itemBytes) queue.push(0, itemBytes);
  return bytes;
}

describe("the budget of all streams", () => {
  it("gives few streams their maximum, and many together little more than itself (REL-1)", () => {
    const buffers = new StreamBuffers(limits());
    const sizes = Array.from({ length: 10_000 }, () => fill(new BoundedQueue(new StreamBuffer(buffers)), 500));
    expect(sizes.slice(0, 200).every((bytes) => bytes >= 64 * KiB && bytes < 64 * KiB + 500)).toBe(true);
    expect(sizes.at(-1), "the minimum of each stream, so that none hangs").toBe(1_500);
    expect(buffers.bytes).toBe(sizes.reduce((sum, bytes) => sum + bytes, 0));
    expect(buffers.bytes).toBeLessThan(budget + 10_000 * 1_500);
  });

  it("is shared fairly by streams that fill at the same time", () => {
    const buffers = new StreamBuffers(limits());
    const queues = Array.from({ length: 4_000 }, () => new BoundedQueue<number>(new StreamBuffer(buffers)));
    const sizes = queues.map(() => 0);
    for (let turn = 0; turn < 100; turn += 1) {
      for (const [at, queue] of queues.entries()) {
        if (queue.full) continue;
        queue.push(0, 500);
        sizes[at] = (sizes[at] ?? 0) + 500;
      }
    }
    expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThan(500 * 2);
    expect(buffers.bytes).toBeLessThan(budget + 4_000 * 500);
  });

  it("gets the bytes back from a reader that reads, one that stops iterating, and a call that ends", async () => {
    const buffers = new StreamBuffers(limits());
    const read = new BoundedQueue<number>(new StreamBuffer(buffers));
    read.push(1, 500);
    const reader = read[Symbol.asyncIterator]();
    await reader.next();
    expect(buffers.bytes).toBe(0);

    const left = new BoundedQueue<number>(new StreamBuffer(buffers));
    left.push(1, 500);
    await left[Symbol.asyncIterator]().return?.();
    expect(buffers.bytes).toBe(0);

    const buffer = new StreamBuffer(buffers);
    const ended = new BoundedQueue<number>(buffer);
    ended.push(1, 500);
    buffer.close();
    expect(buffers.bytes).toBe(0);
    ended.push(2, 500);
    await ended[Symbol.asyncIterator]().next();
    buffer.close();
    expect(buffers.bytes).toBe(0);
  });

  it("resumes an engine that was paused by others as soon as its own reader reads", async () => {
    const buffers = new StreamBuffers(limits());
    const queue = new BoundedQueue<number>(new StreamBuffer(buffers));
    queue.push(1, 2_000);
    new StreamBuffer(buffers).add(budget);
    expect(queue.full).toBe(true);
    const room = queue.room();
    await queue[Symbol.asyncIterator]().next();
    await room;
    expect(queue.full).toBe(false);
  });

  it("lets one stream reach a maximum that is larger than the budget", () => {
    const streamBufferBytesMax = 64 * KiB * KiB;
    const buffers = new StreamBuffers({ streamBufferBytesMax });
    expect(fill(new BoundedQueue(new StreamBuffer(buffers)), KiB * KiB)).toBe(streamBufferBytesMax);
  });
});
