import { beforeEach, describe, expect, it } from "vitest";
import { DeliverySlots } from "../../../../src/domain/webhooks/delivery-slots.js";

const quick = { status: 200, latencyMs: 20 };
const timedOut = { status: null, latencyMs: 5_000 };
const late = { status: 200, latencyMs: 2_000 };

const claimOf = (endpointId: string, account = "a", maxInFlight = 8, isSlow = false) => ({
  ...{ account, endpointId, maxInFlight, isSlow },
});

let slots: DeliverySlots;
beforeEach(() => {
  slots = new DeliverySlots({ inFlightMax: 64, isOnlyWorker: false });
});

/** Attempts that run at the same time and end with these results. */
function attempt(claim: ReturnType<typeof claimOf>, ...results: Parameters<DeliverySlots["ended"]>[1][]): void {
  for (const _ of results) {
    slots.take(claim);
    slots.started(claim);
  }
  for (const result of results) slots.ended(claim, result);
}

describe("shares of accounts in slots", () => {
  it("are at most a quarter while deliveries of others wait, and at most three quarters otherwise (E-12)", () => {
    expect(slots.shares()).toMatchObject({
      contended: { slotsMax: 16, slowMax: 4 },
      alone: { slotsMax: 48, slowMax: 24 },
      held: [],
      slowRoom: 32,
    });
    for (let i = 0; i < 5; i++) slots.take(claimOf("we_a"));
    slots.take(claimOf("we_b", "b", 8, true));
    slots.release(claimOf("we_a"));
    expect(slots.room).toBe(59);
    expect(slots.shares().slowRoom).toBe(31);
    expect(slots.shares().held).toEqual([
      ["a", 4, 0],
      ["b", 1, 1],
    ]);
    slots.release(claimOf("we_b", "b", 8, true));
    expect(slots.shares().held).toEqual([["a", 4, 0]]);
  });

  it("are at least one slot, even if a process has few slots (E-12)", () => {
    const least = { slotsMax: 1, slowMax: 1 };
    const few = new DeliverySlots({ inFlightMax: 1, isOnlyWorker: true });
    expect(few.shares()).toMatchObject({ contended: least, alone: least, slowRoom: 1 });
  });
});

describe("the concurrency of an endpoint", () => {
  const slotsOf = (id: string) => new Map(slots.shares().slow).get(id);

  it("is halved by each attempt without an answer, down to 1, and doubled by each quick answer (E-12)", () => {
    const claim = claimOf("we_a");
    const seen = [timedOut, timedOut, timedOut, timedOut, quick, quick, quick].map((result) => {
      attempt(claim, result);
      return slotsOf("we_a");
    });
    expect(seen).toEqual([4, 2, 1, 1, 2, 4, undefined]);
  });

  it("falls to 1 after the first eight attempts that hang at the same time (E-12)", () => {
    attempt(claimOf("we_a"), ...Array(8).fill(timedOut));
    expect(slotsOf("we_a")).toBe(1);
  });

  it("grows by one with each slow answer, and the endpoint counts as slow until an answer is quick (E-12)", () => {
    const claim = claimOf("we_a");
    const seen = [timedOut, timedOut, timedOut, late, late, late, late, late, late, late, late, quick].map((result) => {
      attempt(claim, result);
      return slotsOf("we_a");
    });
    expect(seen).toEqual([4, 2, 1, 2, 3, 4, 5, 6, 7, 8, 8, undefined]);
  });

  it("is unchanged if no attempt was made because the endpoint was removed", () => {
    attempt(claimOf("we_a"), null);
    expect(slots.shares().slow).toEqual([]);
  });

  it("leaves half of all slots for endpoints that answer, however many endpoints hang (E-12)", () => {
    for (let i = 0; i < 30; i++) slots.take(claimOf(`we_${i}`, `account_${i}`, 8, true));
    slots.take(claimOf("we_good"));
    expect(slots.shares().slowRoom).toBe(2);
  });
});

describe("claims ahead", () => {
  const aheadOf = (claim: ReturnType<typeof claimOf>) => new Map(slots.shares().ahead).get(claim.endpointId);
  const claim = claimOf("we_a", "a", 2);
  beforeEach(() => {
    slots = new DeliverySlots({ inFlightMax: 64, isOnlyWorker: true });
  });

  it("are made for an endpoint that answers quickly and has all its attempts in flight (E-30)", () => {
    attempt(claim, quick);
    expect(aheadOf(claim)).toBeUndefined();
    attempt(claim, quick, null);
    expect(aheadOf(claim)).toBe(2);
    for (let i = 0; i < 100; i++) slots.recorded(30);
    attempt(claim, quick, null);
    expect(aheadOf(claim)).toBe(8);
    attempt(claim, { status: 200, latencyMs: 0 }, null);
    expect(aheadOf(claim)).toBe(12);
    attempt(claim, { status: 200, latencyMs: 250 });
    expect(aheadOf(claim)).toBeUndefined();
    attempt(claim, quick, null);
    attempt(claim, { status: null, latencyMs: 1 });
    expect(aheadOf(claim)).toBeUndefined();
  });

  it("are not made for a slow endpoint, nor if other workers share the store", () => {
    attempt(claim, late, null);
    expect(aheadOf(claim)).toBeUndefined();
    slots = new DeliverySlots({ inFlightMax: 64, isOnlyWorker: false });
    attempt(claim, quick, null);
    expect(aheadOf(claim)).toBeUndefined();
  });

  it("do not start more attempts than the endpoint may have in flight (WH-37)", () => {
    for (const mayStart of [true, false]) {
      slots.take(claim);
      slots.started(claim);
      expect(slots.mayStart(claim)).toBe(mayStart);
    }
    slots.ended(claim, quick);
    expect(slots.mayStart(claim)).toBe(true);
    expect(slots.room).toBe(63);
  });
});
