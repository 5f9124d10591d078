import { describe, expect, it } from "vitest";
import type { KeyPriority } from "../../../../src/domain/call/principal.js";
import { PriorityQueue } from "../../../../src/domain/routing/priority-queue.js";

const owner = (priority: KeyPriority, keyId: string = priority) => ({ account: "a", keyId, priority });
const any = (): boolean => true;

/** A queue with `count` waiting requests of each of the priorities. */
function queueOf(count: number, ...priorities: readonly KeyPriority[]): PriorityQueue<KeyPriority> {
  const queue = new PriorityQueue<KeyPriority>();
  for (const priority of priorities) for (let i = 0; i < count; i++) queue.add(owner(priority), priority);
  return queue;
}

describe("PriorityQueue", () => {
  it("gives slots to interactive before default before batch requests (KEY-24)", () => {
    const queue = queueOf(1, "batch", "default", "interactive");
    expect([queue.next(any), queue.next(any), queue.next(any)]).toEqual(["interactive", "default", "batch"]);
    expect([queue.next(any), queue.size]).toEqual([undefined, 0]);
  });

  it("a waiting default request gets every 8th slot at least, a waiting batch request every 16th (KEY-24)", () => {
    const queue = queueOf(200, "interactive", "default", "batch");
    const order = Array.from({ length: 160 }, () => queue.next(any));
    const longestGap = (priority: KeyPriority): number => {
      const taken = order.flatMap((each, at) => (each === priority ? [at] : []));
      return Math.max(...taken.map((at, i) => at - (taken[i - 1] ?? -1)));
    };
    expect([longestGap("default"), longestGap("batch")]).toEqual([8, 16]);
    expect(order.filter((each) => each === "interactive").length).toBeGreaterThan(120);
  });

  it("slots granted while a class is empty do not count towards its next turn", () => {
    const queue = queueOf(40, "interactive");
    for (let i = 0; i < 30; i++) queue.next(any);
    queue.add(owner("batch"), "batch");
    expect(Array.from({ length: 5 }, () => queue.next(any))).not.toContain("batch");
  });

  it("is fair between the keys of one priority (REL-5)", () => {
    const queue = new PriorityQueue<string>();
    for (let i = 0; i < 3; i++) queue.add(owner("batch", "greedy"), `greedy ${i}`);
    queue.add(owner("batch", "light"), "light");
    expect([queue.next(any), queue.next(any)]).toEqual(["greedy 0", "light"]);
  });

  it("a request of a higher priority takes the place of the newest one of the lowest priority (KEY-24)", () => {
    const queue = queueOf(2, "batch", "default");
    expect(queue.canMakeRoomFor(owner("interactive"))).toBe(true);
    const dropped = [1, 2, 3].map(() => queue.makeRoomFor(owner("interactive")));
    expect(dropped).toEqual(["batch", "batch", "default"]);
    expect([queue.canMakeRoomFor(owner("default")), queue.makeRoomFor(owner("default"))]).toEqual([false, null]);
    expect([queue.canMakeRoomFor(owner("batch")), queue.makeRoomFor(owner("batch")), queue.size]).toEqual([
      false,
      null,
      1,
    ]);
  });

  it("a key without a priority has the default priority", () => {
    const queue = queueOf(1, "batch", "interactive");
    const administrator = { account: "default", keyId: null };
    queue.add(administrator, "default");
    expect([queue.next(any), queue.next(any)]).toEqual(["interactive", "default"]);
    queue.add(administrator, "default");
    queue.remove(administrator, "default");
    expect(queue.size).toBe(1);
  });
});
