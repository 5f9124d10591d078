import { describe, expect, it } from "vitest";
import { FairQueue } from "../../../src/lib/fair-queue.js";

const who = (account: string, keyId: string | null = "k") => ({ account, keyId });

describe("FairQueue", () => {
  it("alternates between accounts and between the keys of an account (REL-5)", () => {
    const lanes = new FairQueue<string>();
    for (let i = 0; i < 3; i++) lanes.add(who("a", "a1"), `a1-${i}`);
    lanes.add(who("a", "a2"), "a2-0");
    lanes.add(who("b"), "b-0");
    lanes.add(who("b"), "b-1");
    const order = Array.from({ length: 6 }, () => lanes.next());
    expect(order).toEqual(["a1-0", "b-0", "a2-0", "b-1", "a1-1", "a1-2"]);
    expect(lanes.next()).toBeUndefined();
    expect(lanes.size).toBe(0);
  });

  it("removes the next accepted item, and keeps the order of the others", () => {
    const lanes = new FairQueue<string>();
    for (const item of ["a-0", "a-1", "a-2"]) lanes.add(who("a"), item);
    lanes.add(who("b"), "b-0");
    expect(lanes.next((item) => item === "a-1")).toBe("a-1");
    expect(lanes.next((item) => item === "c")).toBeUndefined();
    expect(lanes.size).toBe(3);
    // Account a had its turn, so account b is next.
    expect([lanes.next(), lanes.next(), lanes.next()]).toEqual(["b-0", "a-0", "a-2"]);
  });

  it("removes an item at any position", () => {
    const lanes = new FairQueue<string>();
    lanes.add(who("a"), "x");
    lanes.add(who("a"), "y");
    lanes.remove(who("a"), "x");
    lanes.remove(who("a"), "unknown");
    lanes.remove(who("nobody"), "y");
    expect(lanes.size).toBe(1);
    expect(lanes.next()).toBe("y");
  });

  it("removes the newest item of the longest lane, but only for an item of a shorter lane", () => {
    const lanes = new FairQueue<string>();
    for (let i = 0; i < 3; i++) lanes.add(who("heavy"), `h${i}`);
    expect(lanes.newestOfHeaviest(who("heavy"))).toBeNull();
    expect(lanes.newestOfHeaviest(who("light"))).toBe("h2");
    lanes.add(who("light"), "l0");
    expect(lanes.newestOfHeaviest(who("light"))).toBeNull();
    expect(lanes.size).toBe(3);
  });

  it("treats the administrator as a separate key", () => {
    const lanes = new FairQueue<string>();
    lanes.add({ account: "default", keyId: null }, "admin");
    lanes.add(who("default"), "key");
    expect([lanes.next(), lanes.next()]).toEqual(["admin", "key"]);
  });
});
