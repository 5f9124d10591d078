import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { BoundedQueue } from "../../../src/lib/collections.js";

async function drain<T>(queue: BoundedQueue<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of queue) items.push(item);
  return items;
}

describe("BoundedQueue", () => {
  it("delivers the pushed items in order, and then ends", async () => {
    const queue = new BoundedQueue<number>(100);
    for (let i = 0; i < 50; i++) queue.push(i, 1);
    queue.close();
    expect(await drain(queue)).toEqual(Array.from({ length: 50 }, (_, i) => i));
  });

  it("resumes a waiting consumer when an item is pushed", async () => {
    const queue = new BoundedQueue<string>(10);
    const first = queue[Symbol.asyncIterator]().next();
    queue.push("a", 1);
    expect(await first).toEqual({ done: false, value: "a" });
  });

  it("throws the error of the first close after all items, and ignores later closes", async () => {
    const queue = new BoundedQueue<string>(10);
    queue.push("a", 1);
    queue.close(new Error("first"));
    queue.close(new Error("second"));
    queue.push("late", 1);
    const seen: string[] = [];
    await expect(
      (async () => {
        for await (const item of queue) seen.push(item);
      })(),
    ).rejects.toThrow("first");
    expect(seen).toEqual(["a"]);
  });

  it("makes a producer wait at its bound until the consumer has taken enough", async () => {
    const queue = new BoundedQueue<string>(2);
    queue.push("a", 1);
    expect(queue.full).toBe(false);
    queue.push("b", 1);
    expect(queue.full).toBe(true);
    let hasRoom = false;
    const room = queue.room().then(() => {
      hasRoom = true;
    });
    await Promise.resolve();
    expect(hasRoom).toBe(false);
    await queue[Symbol.asyncIterator]().next();
    await room;
    expect(hasRoom).toBe(true);
  });

  it("keeps the order for a consumer that is always behind, and no item that was taken", async () => {
    const queue = new BoundedQueue<{ readonly at: number }>(10);
    const reader = queue[Symbol.asyncIterator]();
    let pushed = 0;
    const taken: WeakRef<object>[] = [];
    const push = () => queue.push({ at: pushed++ }, 1);
    for (let i = 0; i < 10; i += 1) push();
    for (let i = 0; i < 1_000; i += 1) {
      const { value } = await reader.next();
      expect(value.at).toBe(i);
      taken.push(new WeakRef(value));
      push();
    }
    setFlagsFromString("--expose-gc");
    // A WeakRef keeps its target until the end of the turn in which it was made.
    await new Promise((resolve) => setImmediate(resolve));
    (runInNewContext("gc") as () => void)();
    expect(taken.filter((ref) => ref.deref() !== undefined).length).toBeLessThan(10);
  });

  it("gives the items that have arrived without a wait, and releases producers", async () => {
    const queue = new BoundedQueue<string>(2);
    expect(queue.takeNow()).toBeUndefined();
    queue.push("a", 1);
    queue.push("b", 1);
    queue.push("c", 1);
    const room = queue.room();
    expect([queue.takeNow(), queue.full, queue.takeNow(), queue.full]).toEqual(["a", true, "b", false]);
    await room;
    queue.close(new Error("cut off"));
    expect([queue.takeNow(), queue.takeNow()]).toEqual(["c", undefined]);
    await expect(drain(queue)).rejects.toThrow("cut off");
  });

  it("releases every producer that waits, not only the last one", async () => {
    const queue = new BoundedQueue<string>(1);
    queue.push("a", 1);
    const rooms = [queue.room(), queue.room(), queue.room()];
    await queue[Symbol.asyncIterator]().next();
    await Promise.all(rooms);
  });

  it("releases a waiting producer when the consumer stops or the queue is closed", async () => {
    const left = new BoundedQueue<string>(1);
    left.push("a", 1);
    const roomOfLeft = left.room();
    await left[Symbol.asyncIterator]().return?.();
    await roomOfLeft;
    expect(left.full).toBe(false);

    const closed = new BoundedQueue<string>(1);
    closed.push("a", 1);
    const roomOfClosed = closed.room();
    closed.close(new Error("gone"));
    await roomOfClosed;
  });
});
