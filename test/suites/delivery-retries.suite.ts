import { beforeEach, describe, expect, it } from "vitest";
import type { RetryOutcome, RetryRequest } from "../../src/domain/webhooks/delivery-queue.js";
import { endpoint } from "../support/records.js";
import { DeliveryDesk, event, failedForGood, leaseMs, retryIn, succeeded } from "./delivery-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

const by = "session:ses_1";

/** Manual retries of single deliveries. */
export function describeDeliveryRetries(open: OpenState): void {
  describe("manual retries", () => {
    const harness = eachTest(open);
    let desk: DeliveryDesk;
    beforeEach(async () => {
      desk = new DeliveryDesk(harness);
      await desk.insert(endpoint("we_a"));
    });
    const retry = (deliveryId: string, changes: Partial<RetryRequest> = {}): Promise<RetryOutcome> =>
      desk.queue.retryNow({ account: "a", deliveryId, by, restart: false, again: false, ...changes });
    /** Returns the id of a delivery that used this number of retries and failed permanently. */
    const failedAfter = async (retries: number): Promise<string> => {
      const id = await desk.emit("we_a");
      for (let used = 0; used < retries; used++) {
        await desk.attempt(retryIn(30_000));
        await desk.untilDue(id);
      }
      await desk.attempt(failedForGood);
      return id;
    };

    it("a permanently failed delivery is due immediately, for one manual attempt (WH-46)", async () => {
      const id = await failedAfter(5);
      expect(await retry(id)).toBe("queued");
      expect(await desk.find(id)).toMatchObject({ state: "awaiting_retry", reason: null });
      const claim = await desk.claimOne();
      expect(claim).toMatchObject({ attemptNumber: 7, retriesUsed: 5, trigger: "manual", by, isSingle: true });
      expect(claim.body).toBe(event(1).body);
      await desk.finish(claim, { state: "permanently_failed", reason: "manual_retry_failed" });
      const failed = await desk.find(id);
      expect(failed).toMatchObject({ state: "permanently_failed", reason: "manual_retry_failed", attemptsMade: 7 });
      expect(failed.attempts.at(-1)).toMatchObject({ number: 7, trigger: "manual", by, nextAttemptAtMs: null });
      await harness.advance(86_400_000);
      expect(await desk.claim()).toEqual([]);
    });

    it("a failed delivery becomes delivered if the manual attempt succeeds (WH-46)", async () => {
      const id = await failedAfter(0);
      expect(await retry(id)).toBe("queued");
      await desk.attempt(succeeded);
      expect(await desk.find(id)).toMatchObject({ state: "delivered", reason: null, attemptsMade: 2 });
    });

    it("a restarted schedule has all its retries and continues automatically (WH-46)", async () => {
      const id = await failedAfter(5);
      expect(await retry(id, { restart: true })).toBe("queued");
      const manual = await desk.attempt(retryIn(30_000));
      expect(manual).toMatchObject({ attemptNumber: 7, retriesUsed: 0, trigger: "manual", by, isSingle: false });
      await desk.untilDue(id);
      expect(await desk.claimOne()).toMatchObject({
        attemptNumber: 8,
        retriesUsed: 1,
        trigger: "schedule",
        by: "",
        isSingle: false,
      });
    });

    it("the manual flag ends with the attempt that it caused (WH-46)", async () => {
      const id = await failedAfter(0);
      await retry(id);
      expect(await desk.attempt(retryIn(30_000))).toMatchObject({ trigger: "manual", isSingle: true });
      await desk.untilDue(id);
      expect(await desk.claimOne()).toMatchObject({ trigger: "schedule", by: "", isSingle: false, retriesUsed: 1 });
    });

    it("a delivery that awaits a retry makes this retry immediately (WH-47)", async () => {
      const id = await desk.emit("we_a");
      await desk.attempt(retryIn(120_000));
      expect(await retry(id)).toBe("queued");
      expect(await retry(id)).toBe("queued");
      const claim = await desk.claimOne();
      expect(claim).toMatchObject({ attemptNumber: 2, retriesUsed: 1, trigger: "manual", by, isSingle: false });
      await desk.finish(claim, retryIn(600_000));
      await harness.advance(120_000);
      expect(await desk.claim()).toEqual([]);
      await desk.untilDue(id);
      expect(await desk.claim()).toMatchObject([{ attemptNumber: 3, retriesUsed: 2, trigger: "schedule", by: "" }]);
    });

    it("a restart has no effect on a delivery whose schedule has not ended (WH-47)", async () => {
      const id = await desk.emit("we_a");
      await desk.attempt(retryIn(120_000));
      expect(await retry(id, { restart: true })).toBe("queued");
      expect(await desk.claimOne()).toMatchObject({ retriesUsed: 1, isSingle: false });
    });

    it("a pending delivery is queued unchanged and claimed once (WH-47)", async () => {
      const id = await desk.emit("we_a");
      expect(await retry(id)).toBe("queued");
      expect(await desk.claim()).toMatchObject([{ deliveryId: id, attemptNumber: 1, retriesUsed: 0 }]);
      expect(await desk.claim()).toEqual([]);
    });

    it("a delivery in flight is rejected, and its attempt continues (WH-47)", async () => {
      const id = await desk.emit("we_a");
      const claim = await desk.claimOne();
      expect(await retry(id)).toBe("in_flight");
      expect(await desk.finish(claim, succeeded)).not.toBeNull();
      expect(await desk.find(id)).toMatchObject({ state: "delivered", attemptsMade: 1 });
    });

    it("a delivered delivery is sent again only on explicit request, with the same event (WH-47)", async () => {
      const id = await desk.emit("we_a");
      await desk.attempt(succeeded);
      expect(await retry(id)).toBe("delivered");
      expect(await desk.claim()).toEqual([]);
      expect(await retry(id, { again: true })).toBe("queued");
      const claim = await desk.claimOne();
      expect(claim).toMatchObject({ eventId: event(1).id, body: event(1).body, attemptNumber: 2, isSingle: true });
      await desk.finish(claim, succeeded);
      expect(await desk.find(id)).toMatchObject({ state: "delivered", attemptsMade: 2 });
    });

    it("a manual retry stays manual if its worker dies (WH-47)", async () => {
      const id = await failedAfter(0);
      await retry(id);
      await desk.claimOne();
      await harness.advance(leaseMs);
      expect(await desk.claimOne()).toMatchObject({ attemptNumber: 2, trigger: "manual", by, isSingle: true });
    });

    it("a hundred simultaneous requests cause one attempt (WH-47)", async () => {
      const id = await failedAfter(0);
      const answers = await Promise.all(Array.from({ length: 100 }, () => retry(id)));
      expect(new Set(answers)).toEqual(new Set(["queued"]));
      expect(await desk.claim()).toHaveLength(1);
    });

    it("returns that the endpoint is disabled or removed (WH-30)", async () => {
      const id = await failedAfter(0);
      await desk.disable("we_a");
      expect(await retry(id)).toBe("endpoint_disabled");
      await desk.state.endpoints.remove("a", "we_a");
      expect(await retry(id)).toBe("endpoint_deleted");
      expect(await desk.find(id)).toMatchObject({ state: "permanently_failed", reason: "retries_used_up" });
    });

    it("finds no delivery of another account (SEC-22)", async () => {
      const id = await failedAfter(0);
      expect(await retry(id, { account: "other" })).toBe("unknown");
      expect(await retry("dlv_none")).toBe("unknown");
      expect(await desk.claim()).toEqual([]);
    });
  });
}
