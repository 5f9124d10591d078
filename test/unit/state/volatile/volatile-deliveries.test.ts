import { describe, expect, it } from "vitest";
import { createVolatileState } from "../../../../src/state/volatile/volatile-state.js";
import { DeliveryDesk, failedForGood, listAll, retryIn, succeeded } from "../../../suites/delivery-records.js";
import { endpoint } from "../../../suites/ledger-records.js";
import { FakeClock } from "../../../support/fake-clock.js";

const deliveriesMax = 100_000;

function setUp() {
  const clock = new FakeClock();
  const state = createVolatileState({ clock });
  const advance = async (ms: number): Promise<void> => clock.advance(ms);
  const desk = new DeliveryDesk({ state, leewayMs: 1, advance, close: () => state.close() });
  return { clock, state, desk };
}

describe("deliveries of the volatile state", () => {
  it("drops those that ended first once it holds more than 100,000, and none that is open", async () => {
    const { desk, state } = setUp();
    await desk.insert(endpoint("we_a", { maxInFlight: 64 }));
    const open = [await desk.emit("we_a"), await desk.emit("we_a")];
    for (const claim of await desk.claim()) await desk.finish(claim, retryIn(1_000_000));
    const [first = ""] = await desk.emitMany(20_000, "we_a");
    for (let claims = await desk.claim(); claims.length > 0; claims = await desk.claim()) {
      for (const claim of claims) await desk.finish(claim, succeeded);
    }
    const rest = await desk.emitMany(deliveriesMax - 20_002, "we_a");
    expect(await state.deliveries.find(first)).not.toBeNull();
    const newest = await desk.emit("we_a");
    expect(await state.deliveries.find(first)).toBeNull();
    for (const id of [...open, rest[0] ?? "", newest]) expect(await state.deliveries.find(id)).not.toBeNull();
    expect(await listAll(state.deliveries, { state: "delivered" })).toHaveLength(10_000);
  });

  it("drops the oldest ones when all are open, and goes on", async () => {
    const { desk, state } = setUp();
    await desk.insert(endpoint("we_a", { maxInFlight: 2 }));
    const [first = ""] = await desk.emitMany(deliveriesMax, "we_a");
    const held = await desk.claimOne();
    expect(held.deliveryId).toBe(first);
    await desk.emit("we_a");
    expect(await state.deliveries.find(first)).toBeNull();
    expect(await desk.finish(held, succeeded)).toBeNull();
    expect(await state.deliveries.due()).toBe(90_001);
    expect(await state.deliveries.backlog()).toMatchObject([{ open: 90_001 }]);
    expect(await desk.claim()).toHaveLength(2);
  });

  it("is not a millisecond early (WH-26)", async () => {
    const { clock, desk } = setUp();
    await desk.insert(endpoint("we_a"));
    await desk.emit("we_a");
    await desk.attempt(retryIn(30_000));
    expect(await desk.queue.claim({ max: 1, leaseMs: 15_000 })).toEqual({ claims: [], nextInMs: 30_000 });
    clock.advance(29_999);
    expect(await desk.queue.claim({ max: 1, leaseMs: 15_000 })).toEqual({ claims: [], nextInMs: 1 });
    clock.advance(1);
    expect(await desk.claim()).toHaveLength(1);
  });

  it("shows what a worker lost as it was before, and leases of different lengths end when they do", async () => {
    const { clock, desk } = setUp();
    await desk.insert(endpoint("we_a"));
    const ids = [await desk.emit("we_a"), await desk.emit("we_a")];
    await desk.queue.claim({ max: 1, leaseMs: 60_000 });
    await desk.queue.claim({ max: 1, leaseMs: 5_000 });
    clock.advance(5_000);
    expect(await desk.queue.due()).toBe(1);
    expect(await desk.find(ids[0] ?? "")).toMatchObject({ state: "delivery_attempted" });
    expect(await desk.find(ids[1] ?? "")).toMatchObject({ state: "pending" });
    expect(await desk.claim()).toMatchObject([{ deliveryId: ids[1] }]);
  });

  it("keeps nothing of leases that were ended in time", async () => {
    const { desk } = setUp();
    await desk.insert(endpoint("we_a", { maxInFlight: 64 }));
    await desk.emitMany(20_000, "we_a");
    for (let claims = await desk.claim(); claims.length > 0; claims = await desk.claim()) {
      for (const claim of claims) await desk.finish(claim, failedForGood);
    }
    expect(await desk.queue.claim({ max: 1, leaseMs: 15_000 })).toEqual({ claims: [], nextInMs: null });
    expect(await desk.queue.backlog()).toEqual([]);
  });
});
