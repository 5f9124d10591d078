import { beforeEach, describe, expect, it } from "vitest";
import type { DeliveryState } from "../../src/domain/webhooks/delivery.js";
import { endpoint } from "../support/records.js";
import { DeliveryDesk, failedForGood, retryIn, succeeded } from "./delivery-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/** Tests of the behaviour at the maximum number of stored deliveries. */
export function describeDeliveryBounds(open: OpenState): void {
  describe("bounds", () => {
    const harness = eachTest(open, { openDeliveriesMax: 3, deliveredKeptMax: 4 });
    let desk: DeliveryDesk;
    beforeEach(async () => {
      desk = new DeliveryDesk(harness);
      await desk.insert(endpoint("we_a"));
    });
    const statesOf = (ids: readonly string[]): Promise<DeliveryState[]> =>
      Promise.all(ids.map(async (id) => (await desk.find(id)).state));

    it("stores deliveries above the account's maximum of open deliveries as failed, without an attempt (WH-52)", async () => {
      const ids: string[] = [];
      for (let number = 0; number < 5; number++) ids.push(await desk.emit("we_a"));
      expect(await statesOf(ids)).toEqual([
        "pending",
        "pending",
        "pending",
        "permanently_failed",
        "permanently_failed",
      ]);
      expect(await desk.find(ids[4] ?? "")).toMatchObject({
        reason: "overflow",
        nextAttemptAtMs: null,
        attemptsMade: 0,
        isPurged: false,
      });
      expect((await desk.claim()).map(({ deliveryId }) => deliveryId)).toEqual(ids.slice(0, 3));
      expect(await desk.queue.backlog()).toMatchObject([{ endpointId: "we_a", open: 3 }]);
    });

    it("a delivery no longer counts as open after its end, whatever its result; one that awaits a retry still does (WH-52)", async () => {
      for (let number = 0; number < 3; number++) await desk.emit("we_a");
      const [first, second, third] = await desk.claim();
      if (first === undefined || second === undefined || third === undefined) throw new Error("three are due");
      await desk.finish(first, retryIn(30_000));
      expect(await statesOf([await desk.emit("we_a")])).toEqual(["permanently_failed"]);
      await desk.finish(second, succeeded);
      expect(await statesOf([await desk.emit("we_a")])).toEqual(["pending"]);
      await desk.finish(third, failedForGood);
      const more = [await desk.emit("we_a"), await desk.emit("we_a")];
      expect(await statesOf(more)).toEqual(["pending", "permanently_failed"]);
    });

    it("deliveries to a disabled endpoint no longer count as open once they have ended (WH-52)", async () => {
      for (let number = 0; number < 3; number++) await desk.emit("we_a");
      await desk.disable("we_a");
      await desk.drain();
      await desk.insert(endpoint("we_b"));
      expect(await statesOf([await desk.emit("we_b")])).toEqual(["pending"]);
    });

    it("the maximum applies to each account separately, over all its endpoints (WH-52)", async () => {
      await desk.insert(endpoint("we_a2"));
      await desk.insert(endpoint("we_b", { account: "b" }));
      await desk.emit("we_a");
      await desk.emit("we_a");
      expect((await desk.queue.backlog()).reduce((sum, { open: count }) => sum + count, 0)).toBe(3);
      const ids: string[] = [];
      for (let number = 0; number < 3; number++) ids.push(await desk.emit("we_b", { account: "b" }));
      expect(await statesOf(ids)).toEqual(["pending", "pending", "pending"]);
    });

    it("a delivery that overflowed can be retried manually (WH-52)", async () => {
      const ids: string[] = [];
      for (let number = 0; number < 4; number++) ids.push(await desk.emit("we_a"));
      for (const claim of await desk.claim()) await desk.finish(claim, succeeded);
      const [overflowed = ""] = ids.slice(3);
      const retry = { account: "a", deliveryId: overflowed, by: "admin_token", restart: true, again: false };
      expect(await desk.queue.retryNow(retry)).toBe("queued");
      expect(await desk.attempt(succeeded)).toMatchObject({ deliveryId: overflowed, attemptNumber: 1 });
      expect(await statesOf([overflowed])).toEqual(["delivered"]);
    });

    it("above the maximum of delivered deliveries with a payload, the oldest lose their payload early (WH-50)", async () => {
      const ids: string[] = [];
      for (let number = 0; number < 6; number++) {
        ids.push(await desk.emit("we_a"));
        await desk.attempt(succeeded);
        await harness.advance(10);
      }
      const failed = await desk.emit("we_a");
      await desk.attempt(failedForGood);
      await desk.purgeAll();
      const purged = await Promise.all([...ids, failed].map(async (id) => (await desk.find(id)).isPurged));
      expect(purged).toEqual([true, true, false, false, false, false, false]);
    });
  });
}
