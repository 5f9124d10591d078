import { describe, expect, it } from "vitest";
import type { Ejection } from "../../../../src/domain/routing/ejection.js";
import { EjectionGroup } from "../../../../src/domain/routing/ejection-group.js";
import { rank } from "../../../../src/domain/routing/pick.js";
import { FakeClock } from "../../../support/fake-clock.js";

function groupOf(count: number) {
  const clock = new FakeClock();
  const group = new EjectionGroup(clock);
  const changes: string[] = [];
  const members = Array.from({ length: count }, (_, at) => group.add(({ state }) => changes.push(`d${at} ${state}`)));
  const [first, second] = members;
  if (first === undefined) throw new Error("a group needs a deployment");
  return { clock, group, members, first, second: second ?? first, changes };
}

function fail(ejection: Ejection, times = 5): void {
  for (let i = 0; i < times; i++) ejection.failed(ejection.begin(), "connection refused");
}

function succeed(ejection: Ejection, times = 1): void {
  for (let i = 0; i < times; i++) ejection.succeeded(ejection.begin(), null);
}

/** Waits until the ejection ends and lets its probe fail; returns the length of that ejection. */
function failProbe(clock: FakeClock, ejection: Ejection): number {
  const sinceMs = clock.now();
  while (ejection.rank === rank.ejected) clock.advance(1_000);
  ejection.failed(ejection.begin(), "connection refused");
  return clock.now() - sinceMs;
}

describe("Ejection", () => {
  it("5 failures in a row eject a deployment, 4 do not (REL-9)", () => {
    const { first } = groupOf(2);
    fail(first, 4);
    succeed(first);
    fail(first, 4);
    expect(first.rank).toBe(rank.good);
    fail(first, 1);
    expect(first.rank).toBe(rank.ejected);
  });

  it("failures of half of 20 requests within 10 s eject a deployment, of 19 requests they do not (REL-9)", () => {
    const { first, second, clock } = groupOf(4);
    const alternate = (ejection: Ejection, requests: number): void => {
      for (let i = 0; i < requests; i++) {
        if (i % 2 === 0) succeed(ejection);
        else fail(ejection, 1);
      }
    };
    alternate(first, 19);
    expect(first.rank).toBe(rank.good);
    alternate(second, 20);
    expect(second.rank).toBe(rank.ejected);
    clock.advance(10_250);
    fail(first, 1);
    expect(first.rank).toBe(rank.good);
  });

  it("lets one probe through after 10 s and returns with a slow start from 0.1 to 1 over 10 s (REL-9)", () => {
    const { first, clock } = groupOf(2);
    fail(first);
    clock.advance(9_999);
    expect(first.rank).toBe(rank.ejected);
    clock.advance(1);
    expect([first.rank, first.share]).toEqual([rank.good, 1]);
    const probe = first.begin();
    expect(first.rank).toBe(rank.ejected);
    first.succeeded(probe, null);
    expect(first.rank).toBe(rank.good);
    expect(first.share).toBeCloseTo(0.1);
    clock.advance(5_000);
    expect(first.share).toBeCloseTo(0.55);
    clock.advance(5_000);
    expect(first.share).toBe(1);
  });

  it("doubles the ejection time with each failed probe, from 10 s to 5 min (REL-9)", () => {
    const { first, clock } = groupOf(2);
    fail(first);
    const lengths = Array.from({ length: 7 }, () => failProbe(clock, first) / 1_000);
    expect(lengths).toEqual([10, 20, 40, 80, 160, 300, 300]);
  });

  it("doubles the ejection time after a use shorter than the last ejection, and resets it to 10 s after a longer use", () => {
    const { first, clock } = groupOf(2);
    const ejectAfter = (useMs: number): number => {
      clock.advance(useMs);
      fail(first);
      const sinceMs = clock.now();
      while (first.rank === rank.ejected) clock.advance(1_000);
      succeed(first);
      return (clock.now() - sinceMs) / 1_000;
    };
    expect([ejectAfter(0), ejectAfter(9_000), ejectAfter(19_000), ejectAfter(40_000)]).toEqual([10, 20, 40, 10]);
  });

  it("another request may probe when the first probe ended without a result, or has no result after 60 s", () => {
    const { first, clock } = groupOf(2);
    fail(first);
    clock.advance(10_000);
    first.ended(first.begin());
    expect(first.rank).toBe(rank.good);
    first.begin();
    clock.advance(59_999);
    expect(first.rank).toBe(rank.ejected);
    clock.advance(1);
    expect(first.rank).toBe(rank.good);
  });

  it("results of requests that began before the ejection neither end nor prolong it", () => {
    const { first, clock } = groupOf(2);
    const [early, other] = [first.begin(), first.begin()];
    fail(first);
    first.succeeded(early, null);
    expect(first.rank).toBe(rank.ejected);
    clock.advance(10_000);
    first.begin();
    first.failed(other, "reset");
    clock.advance(60_000);
    expect(first.rank).toBe(rank.good);
  });

  it("a success while all deployments are ejected ends the ejection before a probe is due", () => {
    const { first } = groupOf(2);
    fail(first);
    succeed(first);
    expect(first.rank).toBe(rank.good);
  });

  it("failures before the end of an ejection no longer count after it", () => {
    const { first, clock } = groupOf(2);
    const alternate = (requests: number): void => {
      for (let i = 0; i < requests; i++) i % 2 === 0 ? succeed(first) : fail(first, 1);
    };
    alternate(20);
    succeed(first);
    fail(first, 1);
    expect(first.rank).toBe(rank.good);
    // The success that ended the ejection, the failure after it, and 18 more.
    alternate(18);
    expect(first.rank).toBe(rank.ejected);
    expect(first.state.untilMs).toBe(clock.now() + 20_000);
  });

  it("at most half of the deployments are ejected, the next one stays in use with a tenth of its weight", () => {
    for (const [count, ejectedMax] of [
      [1, 0],
      [2, 1],
      [3, 1],
      [4, 2],
      [5, 2],
    ] as const) {
      const { members } = groupOf(count);
      for (const member of members) fail(member, 10);
      expect(members.filter((member) => member.rank === rank.ejected)).toHaveLength(ejectedMax);
    }
    const { members } = groupOf(3);
    for (const member of members.slice(0, 2)) fail(member);
    expect(members.map((member) => [member.rank, member.share])).toEqual([
      [rank.ejected, 1],
      [rank.suspect, 0.1],
      [rank.good, 1],
    ]);
    expect(members[1]?.state).toEqual({
      state: "ready",
      reason: expect.stringContaining("half of the model's deployments are ejected"),
      untilMs: null,
    });
  });

  it("in a model of 16 or more deployments, one has a tenth of its weight from its first failure until its next success (REL-9)", () => {
    const few = groupOf(15);
    fail(few.first, 4);
    expect([few.first.rank, few.first.share]).toEqual([rank.good, 1]);
    const { first } = groupOf(16);
    fail(first, 1);
    expect([first.rank, first.share, first.state.state]).toEqual([rank.good, 0.1, "ready"]);
    expect(first.state.reason).toContain("last request failed");
    succeed(first);
    expect([first.share, first.state.reason]).toEqual([1, null]);
    fail(first, 5);
    expect(first.rank).toBe(rank.ejected);
  });

  it("a suspect that still fails is ejected when another deployment is no longer ejected", () => {
    const { members, first, second } = groupOf(3);
    for (const member of members.slice(0, 2)) fail(member);
    succeed(first);
    expect(second.rank).toBe(rank.suspect);
    fail(second, 1);
    expect(second.rank).toBe(rank.ejected);
  });

  it("the only deployment of a model is never ejected", () => {
    const { first } = groupOf(1);
    fail(first, 100);
    expect([first.rank, first.state.state]).toEqual([rank.good, "ready"]);
  });

  it("an ejected deployment that becomes the only one of its model is in use again after its first success", () => {
    const { group, first, second } = groupOf(2);
    fail(first);
    group.remove(second);
    succeed(first);
    expect(first.state.state).toBe("ready");
  });

  it("a pause lasts for the time of Retry-After, at most 5 min, and a shorter Retry-After does not end it", () => {
    const { first, clock } = groupOf(1);
    first.cool(20_000, "rate limited");
    first.cool(1_000, "rate limited");
    clock.advance(19_999);
    expect(first.rank).toBe(rank.cooling);
    clock.advance(1);
    expect(first.rank).toBe(rank.good);
    first.cool(3_600_000, "quota");
    clock.advance(299_999);
    expect(first.rank).toBe(rank.cooling);
    clock.advance(1);
    expect([first.rank, first.share]).toEqual([rank.good, 1]);
    first.cool(null, "rate limited");
    clock.advance(999);
    expect(first.rank).toBe(rank.cooling);
    clock.advance(1);
    expect(first.rank).toBe(rank.good);
  });

  it("an ejected deployment that becomes reachable again is probed immediately; one that was always reachable is not", () => {
    const { members, first, second } = groupOf(4);
    for (const member of members.slice(0, 2)) fail(member);
    for (const isReachable of [true, true]) second.checked(isReachable);
    expect(second.rank).toBe(rank.ejected);
    for (const isReachable of [false, false]) first.checked(isReachable);
    expect(first.rank).toBe(rank.ejected);
    first.checked(true);
    expect(first.rank).toBe(rank.good);
  });

  it("a deployment whose upstream has no usable key is used only if there is no other, until a key is usable", () => {
    const clock = new FakeClock();
    const heldUntilMs = clock.monotonic() + 60_000;
    const heldForMs = () => Math.max(0, heldUntilMs - clock.monotonic());
    const held = new EjectionGroup(clock).add(() => {}, heldForMs);
    const untilMs = clock.now() + 60_000;
    const reason = expect.stringContaining("every key");
    expect([held.rank, held.state]).toEqual([rank.cooling, { state: "cooling", reason, untilMs }]);
    held.cool(90_000, "The upstream sent 429");
    expect(held.state).toMatchObject({ reason: "The upstream sent 429", untilMs: untilMs + 30_000 });
    clock.advance(90_000);
    expect([held.rank, held.state.state]).toEqual([rank.good, "ready"]);
  });

  it("a probe that fails before the server is reachable again does not delay the next probe", () => {
    const { first, clock } = groupOf(2);
    fail(first);
    first.checked(false);
    clock.advance(10_000);
    fail(first, 1);
    expect(first.rank).toBe(rank.ejected);
    first.checked(true);
    expect(first.rank).toBe(rank.good);
  });

  it("a probe without a result is replaced once the server is reachable again, and its late failure is ignored", () => {
    const { first, clock } = groupOf(2);
    fail(first);
    first.checked(false);
    clock.advance(10_000);
    const hanging = first.begin();
    expect(first.rank).toBe(rank.ejected);
    first.checked(true);
    expect(first.rank).toBe(rank.good);
    const next = first.begin();
    first.failed(hanging, "timeout");
    first.succeeded(next, null);
    expect(first.state.state).toBe("ready");
  });

  it("shows state, reason and the wall-clock end, and reports each change once", () => {
    const { first, clock, changes } = groupOf(2);
    expect(first.state).toEqual({ state: "ready", reason: null, untilMs: null });
    fail(first, 8);
    expect(first.state).toEqual({
      state: "ejected",
      reason: "5 requests failed in a row; the last one: connection refused",
      untilMs: clock.now() + 10_000,
    });
    clock.advance(10_000);
    expect(first.state.untilMs).toBeNull();
    succeed(first);
    first.cool(2_000, "The upstream sent 429");
    expect(first.state).toEqual({ state: "cooling", reason: "The upstream sent 429", untilMs: clock.now() + 2_000 });
    expect(changes).toEqual(["d0 ejected", "d0 ready", "d0 cooling"]);
  });
});

describe("EjectionGroup", () => {
  /** Lets all members answer once a second for a time; the last member takes `slowMs`. */
  function answers(members: readonly Ejection[], clock: FakeClock, seconds: number, slowMs: number): void {
    for (let i = 0; i < seconds; i++) {
      clock.advance(1_000);
      members.forEach((member, at) => {
        member.succeeded(member.begin(), at === members.length - 1 ? slowMs : 100);
      });
    }
  }

  it("first tokens of 10 times the median for 10 s halve the weight, until they are faster again", () => {
    for (const count of [2, 3, 8]) {
      const { members, clock } = groupOf(count);
      const slow = members.at(-1);
      answers(members, clock, 10, 1_100);
      expect(slow?.share).toBe(1);
      answers(members, clock, 2, 1_100);
      expect(members.map(({ share }) => share)).toEqual([...Array(count - 1).fill(1), 0.5]);
      expect(slow?.state.reason).toContain("first tokens");
      answers(members, clock, 2, 100);
      expect(slow?.share).toBe(1);
      expect(slow?.state.reason).toBeNull();
    }
  });

  it("first tokens of 9 times the median, or below 100 ms, are not slow", () => {
    const { members, clock } = groupOf(3);
    answers(members, clock, 30, 900);
    expect(members.map(({ share }) => share)).toEqual([1, 1, 1]);
    const quick = groupOf(2);
    for (let i = 0; i < 30; i++) {
      quick.clock.advance(1_000);
      quick.first.succeeded(quick.first.begin(), 1);
      quick.second.succeeded(quick.second.begin(), 90);
    }
    expect(quick.second.share).toBe(1);
  });

  it("a removed deployment no longer counts as ejected", () => {
    const { group, members, first, second } = groupOf(4);
    for (const member of members.slice(0, 2)) fail(member);
    expect(group.mayEject).toBe(false);
    group.remove(first);
    group.remove(second);
    expect([group.size, group.mayEject]).toEqual([2, true]);
  });
});
