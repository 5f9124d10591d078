import { describe, expect, it } from "vitest";
import { MemoryLink, openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { deliveryBounds } from "../../../../src/state/embedded/verbs.js";
import { keyRecord } from "../../../suites/api-key-records.js";
import { DeliveryDesk, failedForGood, retryIn } from "../../../suites/delivery-records.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { admission, endpoint, settlement } from "../../../support/records.js";

function setUp() {
  const clock = new FakeClock();
  const state = openMemoryState({ clock });
  const advance = async (ms: number): Promise<void> => clock.advance(ms);
  const desk = new DeliveryDesk({ state, leewayMs: 1, advance, close: () => state.close() });
  return { clock, state, desk };
}

describe("state in memory", () => {
  it("warns that its data is lost when it stops", async () => {
    const { durability, warnings } = await openMemoryState().health();
    expect(durability).toBe("none");
    expect(warnings).toHaveLength(1);
  });

  it("rejects a settlement whose counts are not whole numbers from 0 up", async () => {
    const { ledger, usage } = openMemoryState({ clock: new FakeClock() });
    expect(() => ledger.settle(settlement("req_1", { promptTokens: 1.5 }))).toThrow("promptTokens is a count");
    expect(() => ledger.settle(settlement("req_1", { costNano: -1 }))).toThrow("costNano is a count");
    expect(await usage.accounts()).toEqual([]);
  });

  it("counts a request once, with or without an event in its settlement", async () => {
    const { ledger, usage } = openMemoryState({ clock: new FakeClock() });
    const event = { id: "evt_1", type: "request.completed", body: "{}" } as const;
    expect(await ledger.settle(settlement("req_1"))).toMatchObject({ duplicate: false });
    expect(await ledger.settle(settlement("req_1", { event }))).toMatchObject({ duplicate: true });
    expect(await ledger.settle(settlement("req_2", { event }))).toMatchObject({ duplicate: false });
    expect(await ledger.settle(settlement("req_2"))).toMatchObject({ duplicate: true });
    const { account } = settlement("req_1");
    const rows = await usage.rows({ account, width: "day", fromMs: 0, toMs: Number.MAX_SAFE_INTEGER });
    expect(rows).toMatchObject([{ requests: 2n }]);
  });

  it("admits requests up to the maximum of running requests, and another one when one has ended", async () => {
    const { ledger } = openMemoryState({ clock: new FakeClock() });
    for (let number = 0; number < 100_000; number++) await ledger.admit(admission(`req_${number}`));
    expect(() => ledger.admit(admission("req_more"))).toThrow(
      expect.objectContaining({ code: "server_is_overloaded" }),
    );
    await ledger.settle(settlement("req_0"));
    expect(ledger.admit(admission("req_more"))).toMatchObject({ admitted: true });
  });

  it("writes of one turn of the event loop fail individually, and a read sees those that wait", async () => {
    const { keys, endpoints } = openMemoryState({ clock: new FakeClock() });
    const key = keyRecord(1);
    const writes = Promise.allSettled([keys.insert(key), keys.insert(key), endpoints.insert(endpoint("we_a"), 1)]);
    expect(await keys.find(key.id)).toEqual(key);
    expect(await endpoints.find("a", "we_a")).toMatchObject({ record: { id: "we_a" } });
    expect((await writes).map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  });

  it("rejects writes above its maximum size with an error that names the setting, and still serves reads", async () => {
    const link = new MemoryLink(deliveryBounds, 1);
    await link.write("putSetting", "admin.setup", "first", null);
    const tooMuch = link.write("putSetting", "admin.password", "x".repeat(2_000_000), null);
    await expect(tooMuch).rejects.toThrow("The state in memory has reached its 1 MiB. Remove state.durability: none");
    expect(await link.read("getSetting", "admin.setup")).toMatchObject({ version: 1 });
    link.close();
  });
});

describe("deliveries in memory", () => {
  it("are not due before their time, not even by a millisecond (WH-26)", async () => {
    const { clock, desk } = setUp();
    await desk.insert(endpoint("we_a"));
    await desk.emit("we_a");
    await desk.attempt(retryIn(30_000));
    expect(await desk.queue.claim({ max: 1, leaseMs: 15_000 })).toMatchObject({ claims: [], nextInMs: 30_000 });
    clock.advance(29_999);
    expect(await desk.queue.claim({ max: 1, leaseMs: 15_000 })).toMatchObject({ claims: [], nextInMs: 1 });
    clock.advance(1);
    expect(await desk.claim()).toHaveLength(1);
  });

  it("return to their former state when their own lease expires", async () => {
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

  it("leave no leases if all attempts end before their leases expire", async () => {
    const { desk } = setUp();
    await desk.insert(endpoint("we_a", { maxInFlight: 64 }));
    await desk.emitMany(1_000, "we_a");
    for (let claims = await desk.claim(); claims.length > 0; claims = await desk.claim()) {
      for (const claim of claims) await desk.finish(claim, failedForGood);
    }
    expect(await desk.queue.claim({ max: 1, leaseMs: 15_000 })).toMatchObject({ claims: [], nextInMs: null });
    expect(await desk.queue.backlog()).toEqual([]);
  });
});
