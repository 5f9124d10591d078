import { describe, expect, it } from "vitest";
import { BoundedMap } from "../../../src/lib/collections.js";

function keysOf<K>(map: BoundedMap<K, unknown>): K[] {
  return [...map.entries()].map(([key]) => key).sort();
}

describe("BoundedMap", () => {
  it("never exceeds its maximum size, and keeps entries that were among the last uses", () => {
    const map = new BoundedMap<number, number>(10);
    for (let i = 0; i < 100; i++) {
      map.set(i, i);
      expect(map.size).toBeLessThanOrEqual(10);
      for (let recent = Math.max(0, i - 4); recent <= i; recent++) expect(map.has(recent)).toBe(true);
    }
  });

  it("keeps an entry that is read repeatedly", () => {
    const map = new BoundedMap<string, number>(4);
    map.set("kept", 1);
    for (let i = 0; i < 50; i++) {
      map.set(`other${i}`, i);
      expect(map.get("kept")).toBe(1);
    }
  });

  it("does not count `has` as a use", () => {
    const map = new BoundedMap<string, number>(4);
    map.set("asked", 1);
    for (let i = 0; i < 4; i++) {
      map.has("asked");
      map.set(`other${i}`, i);
    }
    expect(map.has("asked")).toBe(false);
  });

  it("keeps the last value that was set for a key", () => {
    const map = new BoundedMap<string, number>(4);
    map.set("a", 1);
    map.set("b", 1);
    map.set("c", 1);
    map.set("a", 2);
    expect(map.get("a")).toBe(2);
    expect(map.delete("a")).toBe(true);
    expect(map.get("a")).toBeUndefined();
    expect(map.delete("a")).toBe(false);
  });

  it("allows deleting entries during an iteration", () => {
    const map = new BoundedMap<string, number>(8);
    for (const key of ["a", "b", "c"]) map.set(key, 1);
    for (const [key] of map.entries()) if (key !== "b") map.delete(key);
    expect(keysOf(map)).toEqual(["b"]);
  });

  it("rejects an invalid bound", () => {
    expect(() => new BoundedMap(0)).toThrow(RangeError);
    expect(() => new BoundedMap(Number.POSITIVE_INFINITY)).toThrow(RangeError);
  });
});
