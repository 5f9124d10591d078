import { describe, expect, it } from "vitest";
import { Outbox } from "../../../src/lib/outbox.js";

async function drain<T>(outbox: Outbox<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of outbox) items.push(item);
  return items;
}

describe("Outbox", () => {
  it("delivers what was pushed, in order, and then ends", async () => {
    const outbox = new Outbox<number>(100);
    for (let i = 0; i < 50; i++) outbox.push(i, 1);
    outbox.close();
    expect(await drain(outbox)).toEqual(Array.from({ length: 50 }, (_, i) => i));
  });

  it("wakes a consumer that waits", async () => {
    const outbox = new Outbox<string>(10);
    const first = outbox[Symbol.asyncIterator]().next();
    outbox.push("a", 1);
    expect(await first).toEqual({ done: false, value: "a" });
  });

  it("throws its error after the items that came before it, and keeps the first close", async () => {
    const outbox = new Outbox<string>(10);
    outbox.push("a", 1);
    outbox.close(new Error("first"));
    outbox.close(new Error("second"));
    outbox.push("late", 1);
    const seen: string[] = [];
    await expect(
      (async () => {
        for await (const item of outbox) seen.push(item);
      })(),
    ).rejects.toThrow("first");
    expect(seen).toEqual(["a"]);
  });

  it("makes a producer wait at its bound, until the consumer took enough", async () => {
    const outbox = new Outbox<string>(2);
    outbox.push("a", 1);
    expect(outbox.full).toBe(false);
    outbox.push("b", 1);
    expect(outbox.full).toBe(true);
    let hasRoom = false;
    const room = outbox.room().then(() => {
      hasRoom = true;
    });
    await Promise.resolve();
    expect(hasRoom).toBe(false);
    await outbox[Symbol.asyncIterator]().next();
    await room;
    expect(hasRoom).toBe(true);
  });

  it("frees a waiting producer when the consumer goes away or the queue is closed", async () => {
    const left = new Outbox<string>(1);
    left.push("a", 1);
    const roomOfLeft = left.room();
    await left[Symbol.asyncIterator]().return?.();
    await roomOfLeft;
    expect(left.full).toBe(false);

    const closed = new Outbox<string>(1);
    closed.push("a", 1);
    const roomOfClosed = closed.room();
    closed.close(new Error("gone"));
    await roomOfClosed;
  });
});
