import { beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../support/eventually.js";
import { endpoint, settlement } from "../support/records.js";
import { DeliveryDesk, event, failedForGood, leaseMs, retryIn, succeeded } from "./delivery-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/** Who holds a delivery, for how long, and what becomes of one that is held no more. */
export function describeDeliveryClaims(open: OpenState): void {
  describe("claims", () => {
    const harness = eachTest(open);
    let desk: DeliveryDesk;
    beforeEach(async () => {
      desk = new DeliveryDesk(harness);
      await desk.insert(endpoint("we_a"));
    });

    it("hands out what is due with the event as it was made, and once (WH-12)", async () => {
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
      });
      expect(Buffer.from(claim?.body ?? "").equals(Buffer.from(event(1).body))).toBe(true);
      expect(await desk.claim()).toEqual([]);
    });

    it("every attempt gets the same bytes, and so does whoever asks for the payload (WH-12)", async () => {
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

    it("no two workers get the same delivery, however many ask at once (WH-32)", async () => {
      await desk.change("we_a", { maxInFlight: 64 });
      const ids = await desk.emitMany(40, "we_a");
      const claims = (await Promise.all([1, 2, 3, 4].map(() => desk.claim(20)))).flat();
      const rest = await desk.claim();
      expect([...claims, ...rest].map(({ deliveryId }) => deliveryId).toSorted()).toEqual(ids.toSorted());
    });

    it("what its worker left is due again when the lease has run out, not before, and no attempt counts (WH-32)", async () => {
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

    it("a lease that ran out on a retry uses none of the retries (WH-32)", async () => {
      const id = await desk.emit("we_a");
      await desk.attempt(retryIn(30_000));
      await desk.untilDue(id);
      expect(await desk.claimOne()).toMatchObject({ attemptNumber: 2, retriesUsed: 1 });
      await harness.advance(leaseMs);
      expect(await desk.claimOne()).toMatchObject({ attemptNumber: 2, retriesUsed: 1 });
    });

    it("the end that a former holder tells late is refused and changes nothing (WH-33)", async () => {
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

    it("an end that is told after the lease counts while nobody else has the delivery (WH-33)", async () => {
      const id = await desk.emit("we_a");
      const claim = await desk.claimOne();
      await harness.advance(leaseMs + harness.leewayMs);
      expect(await desk.finish(claim, succeeded)).not.toBeNull();
      expect(await desk.claim()).toEqual([]);
      expect(await desk.find(id)).toMatchObject({ state: "delivered", attemptsMade: 1 });
    });

    it("the same end told again changes nothing (WH-33)", async () => {
      const id = await desk.emit("we_a");
      const claim = await desk.claimOne();
      expect(await desk.finish(claim, retryIn(30_000))).not.toBeNull();
      const before = { delivery: await desk.find(id), endpoint: await desk.endpoint("we_a") };
      expect(await desk.finish(claim, retryIn(30_000))).toBeNull();
      expect({ delivery: await desk.find(id), endpoint: await desk.endpoint("we_a") }).toEqual(before);
    });

    it("what is handed back untried is as it was before, and due at once", async () => {
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

    it("several are handed back in one step, and first attempts keep their order", async () => {
      const ids = await desk.emitMany(3, "we_a");
      await desk.queue.handBack(await desk.claim());
      expect(await Promise.all(ids.map(async (id) => (await desk.find(id)).state))).toEqual(ids.map(() => "pending"));
      expect((await desk.claim()).map(({ deliveryId }) => deliveryId)).toEqual(ids);
    });

    it("a former holder hands nothing back that somebody else holds (WH-33)", async () => {
      await desk.emit("we_a");
      const former = await desk.claimOne();
      await harness.advance(leaseMs);
      const holder = await desk.claimOne();
      await desk.queue.handBack([former]);
      expect(await desk.claim()).toEqual([]);
      expect(await desk.finish(holder, succeeded)).not.toBeNull();
    });

    it("says how long there is nothing to do", async () => {
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

    it("tells at once that something is due, until the listener has left", async () => {
      let told = 0;
      const end = desk.queue.onDue(() => {
        told += 1;
      });
      const toldOf = async (what: string, act: () => Promise<unknown>): Promise<void> => {
        const before = told;
        await act();
        await eventually(() => told > before, `a word about ${what}`);
      };
      let id = "";
      await toldOf("a new delivery", async () => {
        id = await desk.emit("we_a");
      });
      await desk.attempt(failedForGood);
      const retry = { account: "a", deliveryId: id, by: "admin_token", restart: false, again: false };
      await toldOf("a retry by hand", () => desk.queue.retryNow(retry));
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

    it("the event of a settlement that waited elsewhere is due at once", async () => {
      const endedAtMs = harness.state.now() - 60_000;
      await desk.state.ledger.settle(settlement("req_late", { event: event(900), endedAtMs }));
      expect(await desk.claim()).toMatchObject([{ eventId: event(900).id }]);
    });
  });
}
