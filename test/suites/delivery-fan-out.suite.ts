import { beforeEach, describe, expect, it } from "vitest";
import { deliveryId } from "../../src/domain/webhooks/delivery.js";
import { deliveredKeptMs, fanOutMax, type SlotShares } from "../../src/domain/webhooks/delivery-queue.js";
import { eventually } from "../support/eventually.js";
import { endpoint, settlement } from "../support/records.js";
import { DeliveryDesk, event, fanOutAll, leaseMs, listAll, retryIn, succeeded } from "./delivery-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/** Tests of events of settlements, from which deliveries are created in later steps. */
export function describeDeliveryFanOut(open: OpenState): void {
  describe("fan-out of events", () => {
    const harness = eachTest(open, { waitingEventsMax: 40 });
    let desk: DeliveryDesk;
    beforeEach(() => {
      desk = new DeliveryDesk(harness);
    });

    /** Settles a request with the event of this number. */
    const settle = (number: number, changes: Parameters<typeof settlement>[1] = {}): unknown =>
      desk.state.ledger.settle(settlement(`req_${number}`, { event: event(number), ...changes }));

    it("an event has deliveries for the endpoints that subscribed to it when it occurred, even if these change before the deliveries exist (WH-14, E-30)", async () => {
      for (const id of ["we_same", "we_disabled", "we_deleted"]) await desk.insert(endpoint(id));
      await desk.insert(endpoint("we_other", { events: ["request.failed"] }));
      await settle(1);
      expect(await desk.state.deliveries.waitingEvents()).toMatchObject({ events: 1, oldestAtMs: expect.any(Number) });
      await desk.disable("we_disabled");
      await desk.state.endpoints.remove("a", "we_deleted");
      await desk.change("we_other", { events: ["request.completed"] });
      await desk.insert(endpoint("we_new"));
      const claims = await desk.drain();
      expect(claims.map(({ endpointId, body }) => [endpointId, body])).toEqual([["we_same", event(1).body]]);
      const found = await listAll(desk.queue);
      const outcomes = found.map(({ endpointId, reason }) => [endpointId, reason]).toSorted();
      expect(outcomes).toEqual([
        ["we_deleted", "endpoint_deleted"],
        ["we_disabled", "endpoint_disabled"],
        ["we_same", null],
      ]);
      expect(await desk.state.deliveries.waitingEvents()).toEqual({ events: 0, oldestAtMs: null });
    });

    it("the deliveries of an event are created once, even by several workers or if the event is repeated (WH-11, E-30)", async () => {
      for (const id of ["we_a", "we_b", "we_c"]) await desk.insert(endpoint(id));
      const numbers = Array.from({ length: 20 }, (_, i) => i + 1);
      await Promise.all(numbers.map((number) => settle(number)));
      await settle(101, { event: event(1) });
      await Promise.all([1, 2, 3, 4].map(() => desk.queue.fanOut(fanOutMax)));
      await fanOutAll(desk.queue);
      await settle(102, { event: event(1) });
      const found = await listAll(desk.queue);
      const wanted = numbers.flatMap((n) => ["we_a", "we_b", "we_c"].map((id) => deliveryId(event(n).id, id)));
      expect(found.map(({ id }) => id).toSorted()).toEqual(wanted.toSorted());
      expect(await desk.queue.due()).toBe(wanted.length);
      for (const number of [1, 20]) {
        const id = deliveryId(event(number).id, "we_b");
        expect(await desk.queue.payload(id)).toBe(event(number).body);
      }
    });

    it("deliveries share the body of their event until the last one loses its payload (WH-12, WH-50, E-30)", async () => {
      for (const id of ["we_a", "we_b"]) await desk.insert(endpoint(id));
      await settle(1);
      const [first, second] = await desk.claim();
      if (first === undefined || second === undefined) throw new Error("two are due");
      expect([first.body, second.body]).toEqual([event(1).body, event(1).body]);
      await desk.finish(first, succeeded);
      await desk.finish(second, retryIn(deliveredKeptMs + 60_000));
      await harness.advance(deliveredKeptMs + harness.leewayMs);
      await desk.purgeAll();
      expect(await desk.queue.payload(first.deliveryId)).toBeNull();
      expect(await desk.queue.payload(second.deliveryId)).toBe(event(1).body);
      await desk.untilDue(second.deliveryId);
      expect((await desk.attempt(succeeded)).body).toBe(event(1).body);
      await harness.advance(deliveredKeptMs + harness.leewayMs);
      await desk.purgeAll();
      expect(await desk.queue.payload(second.deliveryId)).toBeNull();
    });

    it("deliveries are created for the accounts in turn, so that events of one account do not delay those of another (E-12, E-30)", async () => {
      for (let i = 0; i < 16; i++) await desk.insert(endpoint(`we_a${i}`));
      await desk.insert(endpoint("we_b", { account: "b" }));
      for (let number = 1; number <= 30; number++) await settle(number);
      await settle(31, { account: "b" });
      expect(await desk.queue.fanOut(64)).toBe(true);
      const found = await desk.queue.find(deliveryId(event(31).id, "we_b"));
      // The accounts are on different shards, or take turns on the same shard.
      expect(found).toMatchObject({ account: "b", state: "pending" });
      expect((await desk.state.deliveries.waitingEvents()).events).toBeGreaterThan(0);
      await fanOutAll(desk.queue);
      expect(await desk.queue.due()).toBe(30 * 16 + 1);
    });

    it("first attempts start in the order of the events, over several steps of the fan-out (WH-31)", async () => {
      await desk.insert(endpoint("we_a"));
      for (let number = 1; number <= 12; number++) await settle(number);
      const order: string[] = [];
      while (order.length < 12) {
        await desk.queue.fanOut(2);
        for (const claim of await desk.claim(1)) {
          order.push(claim.eventId);
          await desk.finish(claim, succeeded);
        }
      }
      expect(order).toEqual(Array.from({ length: 12 }, (_, i) => event(i + 1).id));
    });

    it("above the maximum of waiting events, settlements create the deliveries of the oldest events (E-30)", async () => {
      for (const id of ["we_a", "we_b"]) await desk.insert(endpoint(id));
      for (let number = 1; number <= 45; number++) await settle(number);
      expect(await desk.state.deliveries.waitingEvents()).toMatchObject({ events: 40 });
      for (const number of [1, 5]) {
        expect(await desk.queue.find(deliveryId(event(number).id, "we_b"))).toMatchObject({ state: "pending" });
      }
      expect(await desk.queue.find(deliveryId(event(6).id, "we_b"))).toBeNull();
      await fanOutAll(desk.queue);
      expect(await desk.queue.due()).toBe(90);
    });
  });

  describe("shares of slots", () => {
    const harness = eachTest(open);
    let desk: DeliveryDesk;
    beforeEach(async () => {
      desk = new DeliveryDesk(harness);
      for (const id of ["we_a1", "we_a2"]) await desk.insert(endpoint(id));
      await desk.insert(endpoint("we_b", { account: "b", maxInFlight: 64 }));
    });
    const shares: SlotShares = {
      contended: { slotsMax: 4, slowMax: 2 },
      alone: { slotsMax: 12, slowMax: 5 },
      held: [],
      slow: [],
      slowRoom: 8,
      ahead: [],
    };
    const claimed = async (max: number, changes: Partial<SlotShares> = {}) => {
      const answer = await desk.queue.claim({ max, leaseMs, shares: { ...shares, ...changes } });
      const of = (account: string) => answer.claims.filter((claim) => claim.account === account).length;
      return { ...answer, a: of("a"), b: of("b") };
    };
    /** Delivers once to each endpoint, so that none counts as slow. */
    const answer = async (): Promise<void> => {
      await desk.emit("we_a1");
      await desk.emit("we_b", { account: "b" });
      for (const claim of await desk.claim()) await desk.finish(claim, succeeded);
    };

    it("an account gets its smaller share while deliveries of another wait (E-12)", async () => {
      await answer();
      await desk.emitMany(20, "we_a1");
      await desk.emitMany(20, "we_b", "b");
      expect(await claimed(8)).toMatchObject({ a: 4, b: 4 });
    });

    it("an account gets its larger share when no others wait, and the rest stays free (E-12)", async () => {
      await answer();
      await desk.emitMany(20, "we_a1");
      await desk.emitMany(2, "we_b", "b");
      const first = await claimed(32);
      expect(first).toMatchObject({ a: 12, b: 2 });
      expect(first.nextInMs).toBeGreaterThan(0);
      const held = [["a", 12, 0]] as const;
      expect(await claimed(18, { held })).toMatchObject({ a: 0, b: 0 });
      await desk.emitMany(1, "we_b", "b");
      expect(await claimed(18, { held })).toMatchObject({ a: 0, b: 1 });
    });

    it("endpoints without a success since their creation or last failure get the share of slow endpoints (E-12)", async () => {
      await desk.state.endpoints.remove("a", "we_a2");
      await desk.emitMany(20, "we_a1");
      await desk.emitMany(20, "we_b", "b");
      const first = await claimed(4);
      expect(first).toMatchObject({ a: 2, b: 2 });
      expect(first.claims.every(({ isSlow }) => isSlow)).toBe(true);
      for (const claim of first.claims) await desk.finish(claim, succeeded);
      for (const claim of (await claimed(8)).claims) {
        expect(claim.isSlow).toBe(false);
        await desk.finish(claim, claim.account === "a" ? retryIn(60_000) : succeeded);
      }
      expect(await claimed(6)).toMatchObject({ a: 2, b: 4 });
    });

    it("slow endpoints of all accounts share a maximum of slots, and endpoints that answer use the other slots (E-12)", async () => {
      await answer();
      await desk.insert(endpoint("we_c", { account: "c" }));
      await desk.insert(endpoint("we_d", { account: "d" }));
      await desk.emitMany(9, "we_c", "c");
      await desk.emitMany(9, "we_d", "d");
      await desk.emitMany(9, "we_b", "b");
      const { claims, b } = await claimed(64, { slowRoom: 3 });
      expect(claims.filter(({ isSlow }) => isSlow)).toHaveLength(3);
      expect(b).toBe(9);
    });

    it("an endpoint that the worker lists as slow gets the number of slots that the worker states (E-12)", async () => {
      await answer();
      await desk.emitMany(10, "we_a1");
      const endpointsOf = async (slowRoom: number): Promise<string[]> => {
        const all = { slotsMax: 32, slowMax: 32 };
        const { claims } = await claimed(32, { slow: [["we_a1", 1]], slowRoom, contended: all, alone: all });
        return claims.map(({ endpointId, maxInFlight, isSlow }) => `${endpointId} ${maxInFlight} ${isSlow}`);
      };
      expect(await endpointsOf(0)).toEqual(Array(8).fill("we_a2 8 false"));
      const found: string[] = [];
      // The store may examine skipped queues again only after a short time.
      await eventually(async () => found.push(...(await endpointsOf(4))) > 0, "a claim");
      expect(found).toEqual(["we_a1 8 true"]);
      expect(await endpointsOf(4)).toEqual([]);
    });
  });
}
