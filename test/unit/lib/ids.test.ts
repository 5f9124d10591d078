import { describe, expect, it } from "vitest";
import { createRandomIds } from "../../../src/lib/crypto.js";
import { eventually } from "../../support/eventually.js";

describe("random ids", () => {
  const ids = createRandomIds();

  it("a request id is `req_` and 32 hex digits, and no two are equal (HDR-1)", () => {
    const made = Array.from({ length: 1_000 }, () => ids.requestId());
    for (const id of made) expect(id).toMatch(/^req_[0-9a-f]{32}$/);
    expect(new Set(made).size).toBe(made.length);
  });

  it("request ids sort by the millisecond of their creation (E-33, E-42)", async () => {
    const made: string[] = [];
    while (made.length < 8) {
      made.push(ids.requestId());
      const madeAtMs = Date.now();
      await eventually(() => Date.now() > madeAtMs);
    }
    expect(made.toSorted()).toEqual(made);
  });

  it("a request id has 80 random bits after its 48 bits of time (E-42)", () => {
    const made = Array.from({ length: 1_000 }, () => ids.requestId());
    const beforeMs = Date.now() - 60_000;
    for (const id of made) expect(Number.parseInt(id.slice(4, 16), 16)).toBeGreaterThan(beforeMs);
    for (let position = 16; position < 36; position++) {
      expect(new Set(made.map((id) => id[position])).size).toBe(16);
    }
  });

  it.each([1, 24, 10_000])("writes %i characters of letters and digits after the prefix", (length) => {
    const made = Array.from({ length: 300 }, () => ids.text("key_", length));
    for (const id of made) expect(id).toMatch(new RegExp(`^key_[A-Za-z0-9]{${length}}$`));
    if (length > 1) expect(new Set(made).size).toBe(made.length);
  });

  it("draws every character about equally often", () => {
    const text = ids.text("", 620_000);
    const counts = new Map<string, number>();
    for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1);
    expect(counts.size).toBe(62);
    for (const count of counts.values()) expect(Math.abs(count - 10_000)).toBeLessThan(700);
  });
});
