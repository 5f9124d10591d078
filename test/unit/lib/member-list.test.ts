import { describe, expect, it } from "vitest";
import { MemberList } from "../../../src/lib/collections.js";

const members = (count: number) => Array.from({ length: count }, (_, name) => ({ name, place: 0 }));
const namesOf = (list: MemberList<{ name: number; place: number }>) => [...list].map(({ name }) => name).sort();

describe("MemberList", () => {
  it("contains the added members that were not deleted, for any order of deletions", () => {
    for (const order of [
      [0, 1, 2, 3],
      [3, 2, 1, 0],
      [1, 3, 0, 2],
    ]) {
      const list = new MemberList<{ name: number; place: number }>();
      const all = members(4);
      for (const member of all) list.add(member);
      const left = new Set([0, 1, 2, 3]);
      for (const name of order) {
        const member = all[name];
        if (member !== undefined) list.delete(member);
        left.delete(name);
        expect(namesOf(list)).toEqual([...left]);
        expect(list.size).toBe(left.size);
      }
    }
  });

  it("ignores the deletion of a member that is not in the list", () => {
    const list = new MemberList<{ name: number; place: number }>();
    const [first, second] = members(2);
    if (first === undefined || second === undefined) throw new Error("two members are needed");
    list.add(first);
    list.delete(second);
    list.delete(first);
    list.delete(first);
    expect(list.size).toBe(0);
  });

  it("returns all members in an array that does not change when members are deleted", () => {
    const list = new MemberList<{ name: number; place: number }>();
    for (const member of members(3)) list.add(member);
    let seen = 0;
    for (const member of list.all()) {
      list.delete(member);
      seen += 1;
    }
    expect([seen, list.size]).toEqual([3, 0]);
  });
});
