import { describe, expect, it } from "vitest";
import { BodyBudget } from "../../../../src/transports/http/body.js";

function budgetOf(bodiesBytesMax: number, bodyBytesMax = 0) {
  const limits = { bodiesBytesMax, bodyBytesMax };
  return { limits, budget: new BodyBudget(limits) };
}

describe("the budget of request bodies", () => {
  it("grants exactly its maximum, and charges nothing for a rejected body", () => {
    const { budget } = budgetOf(100, 100);
    const [first, second] = [budget.charge({}, "a"), budget.charge({}, "b")];
    expect(first.add(60)).toBeNull();
    expect(second.add(41)).toBe("no_room");
    expect(budget.used).toBe(60);
    expect(second.add(40)).toBeNull();
    expect(budget.charge({}, "c").add(1)).toBe("no_room");
    expect([budget.hasRoom(0), budget.hasRoom(1)]).toEqual([true, false]);
  });

  it("applies a changed maximum, and grants nothing while more than the new maximum is charged", () => {
    const { limits, budget } = budgetOf(100, 1_000);
    const first = budget.charge({}, "a");
    const second = budget.charge({}, "b");
    expect(first.add(80)).toBeNull();
    limits.bodiesBytesMax = 120;
    expect(second.add(40)).toBeNull();
    limits.bodiesBytesMax = 50;
    first.release();
    expect(budget.charge({}, "c").add(11)).toBe("no_room");
    expect(budget.charge({}, "c").add(10)).toBeNull();
  });

  it("grants released bytes again, and releases each charge only once", () => {
    const { budget } = budgetOf(100, 100);
    const charge = budget.charge({}, "a");
    charge.add(100);
    charge.release();
    charge.release();
    expect(budget.used).toBe(0);
    expect(budget.charge({}, "b").add(100)).toBeNull();
  });

  it("grants one connection a quarter, and one caller half of it over all connections", () => {
    const { budget } = budgetOf(1_000);
    const [one, two, three] = [{}, {}, {}];
    expect(budget.charge(one, "a").add(250)).toBeNull();
    expect(budget.charge(one, "b").add(6)).toBe("connection_full");
    expect(budget.charge(two, "a").add(250)).toBeNull();
    expect(budget.charge(three, "a").add(6)).toBe("caller_full");
    expect(budget.charge(three, "b").add(250)).toBeNull();
  });

  it("grants every connection and caller at least one body of the maximum size", () => {
    const { budget } = budgetOf(1_000, 900);
    const charge = budget.charge({}, "a");
    expect(charge.add(900)).toBeNull();
    expect(charge.bytes).toBe(900);
  });
});
