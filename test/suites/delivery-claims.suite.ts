import { beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../support/eventually.js";
import { endpoint, settlement } from "../support/records.js";
import { DeliveryDesk, event, failedForGood, leaseMs, retryIn, succeeded } from "./delivery-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/** Claims and leases of deliveries, and released or expired claims. */
export function describeDeliveryClaims(open: OpenState): void {
  describe("claims", () => {
    const harness = eachTest(open);
    let desk: DeliveryDesk;
    beforeEach(async () => {
      desk = new DeliveryDesk(harness);
      await desk.insert(endpoint("we_a"));
    });

    it("returns each due delivery once, with the original bytes of its event (WH-12)", async () => {
      const id = await desk.emit("we_a", { type: "request.failed" });
      const [claim, ...others] = await desk.claim();
      expect(others).toEqual([]);
      expect(claim).toEqual({
        deliveryId: id,
        account: "a",
        endpointId: "we_a",
        eventId: event(1).id,
        eventType: "request.failed",
        body: event(1).body,
        fence: expect.any(Number),
        attemptNumber: 1,
        retriesUsed: 0,
        trigger: "schedule",
        by: "",
        isSingle: false,
        dueAtMs: expect.any(Number),
        maxInFlight: 8,
        isSlow: true,
      });
      expect(Buffer.from(claim?.body ?? "").equals(Buffer.from(event(1).body))).toBe(true);
      expect(await desk.claim()).toEqual([]);
    });

    it("every attempt and every read of the payload returns the same bytes (WH-12)", async () => {
      const id = await desk.emit("we_a");
      for (let number = 1; number <= 3; number++) {
        const claim = await desk.attempt(retryIn(30_000));
        expect(claim.body).toBe(event(1).body);
        expect(claim.eventId).toBe(event(1).id);
        await desk.untilDue(id);
      }
      expect(await desk.queue.payload(id)).toBe(event(1).body);
      expect(await desk.queue.payload("dlv_none")).toBeNull();
    });

    it("no two of many workers that claim simultaneously get the same delivery (WH-32)", async () => {
      await desk.change("we_a", { maxInFlight: 64 });
      const ids = await desk.emitMany(40, "we_a");
      const claims = (await Promise.all([1, 2, 3, 4].map(() => desk.claim(20)))).flat();
      const rest = await desk.claim();
      expect([...claims, ...rest].map(({ deliveryId }) => deliveryId).toSorted()).toEqual(ids.toSorted());
    });

    it("a delivery whose worker died is due again when its lease expires, not earlier, and no attempt is counted (WH-32)", async () => {
      const id = await desk.emit("we_a");
      const lost = await desk.claimOne();
      await harness.advance(leaseMs - harness.leewayMs);
      expect(await desk.claim()).toEqual([]);
      await harness.advance(harness.leewayMs);
      const again = await desk.claimOne();
      expect(again).toMatchObject({ deliveryId: id, attemptNumber: 1, retriesUsed: 0, trigger: "schedule" });
      expect(again.fence).toBeGreaterThan(lost.fence);
      expect(await desk.find(id)).toMatchObject({ attemptsMade: 0, attempts: [] });
    });

    it("a lease that expires during a retry uses no retry (WH-32)", async () => {
      const id = await desk.emit("we_a");
      await desk.attempt(retryIn(30_000));
      await desk.untilDue(id);
      expect(await desk.claimOne()).toMatchObject({ attemptNumber: 2, retriesUsed: 1 });
      await harness.advance(leaseMs);
      expect(await desk.claimOne()).toMatchObject({ attemptNumber: 2, retriesUsed: 1 });
    });

    it("a late result of a former claim holder is rejected and changes nothing (WH-33)", async () => {
      const id = await desk.emit("we_a");
      const former = await desk.claimOne();
      await harness.advance(leaseMs);
      const holder = await desk.claimOne();
      const before = { delivery: await desk.find(id), endpoint: await desk.endpoint("we_a") };
      expect(await desk.finish(former, succeeded)).toBeNull();
      expect(await desk.finish(former, failedForGood)).toBeNull();
      expect(await desk.finish(former, retryIn(1_000))).toBeNull();
      expect({ delivery: await desk.find(id), endpoint: await desk.endpoint("we_a") }).toEqual(before);
      expect(await desk.finish(holder, succeeded)).not.toBeNull();
      expect(await desk.finish(former, retryIn(1_000))).toBeNull();
      expect(await desk.find(id)).toMatchObject({ state: "delivered", attemptsMade: 1 });
    });

    it("a result after the lease expired is accepted if no other worker has claimed the delivery (WH-33)", async () => {
      const id = await desk.emit("we_a");
      const claim = await desk.claimOne();
      await harness.advance(leaseMs + harness.leewayMs);
      expect(await desk.finish(claim, succeeded)).not.toBeNull();
      expect(await desk.claim()).toEqual([]);
      expect(await desk.find(id)).toMatchObject({ state: "delivered", attemptsMade: 1 });
    });

    it("reporting the same result twice changes nothing (WH-33)", async () => {
      const id = await desk.emit("we_a");
      const claim = await desk.claimOne();
      expect(await desk.finish(claim, retryIn(30_000))).not.toBeNull();
      const before = { delivery: await desk.find(id), endpoint: await desk.endpoint("we_a") };
      expect(await desk.finish(claim, retryIn(30_000))).toBeNull();
      expect({ delivery: await desk.find(id), endpoint: await desk.endpoint("we_a") }).toEqual(before);
    });

    it("a delivery that is released without an attempt keeps its state and is due immediately", async () => {
      const id = await desk.emit("we_a");
      await desk.attempt(retryIn(30_000));
      await desk.untilDue(id);
      const before = await desk.find(id);
      const claim = await desk.claimOne();
      await desk.queue.handBack([claim]);
      expect(await desk.find(id)).toEqual(before);
      expect(await desk.finish(claim, succeeded)).toBeNull();
      const again = await desk.claimOne();
      expect(again).toEqual({ ...claim, fence: expect.any(Number) });
      expect(again.fence).toBeGreaterThan(claim.fence);
    });

    it("several deliveries are released in one call, and first attempts keep their order", async () => {
      const ids = await desk.emitMany(3, "we_a");
      await desk.queue.handBack(await desk.claim());
      expect(await Promise.all(ids.map(async (id) => (await desk.find(id)).state))).toEqual(ids.map(() => "pending"));
      expect((await desk.claim()).map(({ deliveryId }) => deliveryId)).toEqual(ids);
    });

    it("a former holder cannot release a delivery that another worker holds (WH-33)", async () => {
      await desk.emit("we_a");
      const former = await desk.claimOne();
      await harness.advance(leaseMs);
      const holder = await desk.claimOne();
      await desk.queue.handBack([former]);
      expect(await desk.claim()).toEqual([]);
      expect(await desk.finish(holder, succeeded)).not.toBeNull();
    });

    it("returns the time until the next delivery is due", async () => {
      const empty = await desk.queue.claim({ max: 64, leaseMs });
      expect(empty).toEqual({ claims: [], nextInMs: null });
      const id = await desk.emit("we_a");
      await desk.emit("we_a");
      expect((await desk.queue.claim({ max: 1, leaseMs })).nextInMs).toBe(0);
      const held = await desk.queue.claim({ max: 64, leaseMs });
      expect(held.nextInMs).toBeGreaterThan(0);
      expect(held.nextInMs).toBeLessThan(leaseMs + harness.leewayMs);
      for (const claim of held.claims) await desk.finish(claim, succeeded);
      await harness.advance(leaseMs);
      await desk.attempt(retryIn(30_000));
      const waiting = await desk.queue.claim({ max: 64, leaseMs });
      expect(waiting.nextInMs).toBeGreaterThan(30_000 - harness.leewayMs - 1);
      expect(waiting.nextInMs).toBeLessThan(30_000 + harness.leewayMs);
      await harness.advance(waiting.nextInMs ?? 0);
      expect((await desk.claimOne()).deliveryId).toBe(id);
    });

    it("notifies a listener of due deliveries immediately, until it unsubscribes", async () => {
      let told = 0;
      const end = desk.queue.onDue(() => {
        told += 1;
      });
      const toldOf = async (what: string, act: () => Promise<unknown>): Promise<void> => {
        const before = told;
        await act();
        await eventually(() => told > before, `a notification of ${what}`);
      };
      let id = "";
      await toldOf("a new delivery", async () => {
        id = await desk.emit("we_a");
      });
      await desk.attempt(failedForGood);
      const retry = { account: "a", deliveryId: id, by: "admin_token", restart: false, again: false };
      await toldOf("a manual retry", () => desk.queue.retryNow(retry));
      await toldOf("an endpoint that is disabled", () => desk.disable("we_a"));
      await desk.insert(endpoint("we_b"));
      await desk.emit("we_b");
      await toldOf("an endpoint that is removed", () => desk.state.endpoints.remove("a", "we_b"));
      end();
      const before = told;
      await desk.insert(endpoint("we_c"));
      await desk.emit("we_c");
      await desk.claim();
      expect(told).toBe(before);
    });

    it("the delivery of an event is due immediately if its settlement was delayed in the spool", async () => {
      const endedAtMs = harness.state.now() - 60_000;
      await desk.state.ledger.settle(settlement("req_late", { event: event(900), endedAtMs }));
      expect(await desk.claim()).toMatchObject([{ eventId: event(900).id }]);
    });
  });
}
