import { beforeEach, describe, expect, it } from "vitest";
import type { ReplayRequest, ReplayStep } from "../../src/domain/webhooks/delivery-queue.js";
import { endpoint } from "../support/records.js";
import { DeliveryDesk, failedForGood, listAll, retryIn, succeeded } from "./delivery-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/** Replays of an endpoint's deliveries. */
export function describeDeliveryReplay(open: OpenState): void {
  describe("replay", () => {
    const harness = eachTest(open);
    let desk: DeliveryDesk;
    let fromMs = 0;
    beforeEach(async () => {
      desk = new DeliveryDesk(harness);
      await desk.insert(endpoint("we_a"));
      fromMs = harness.state.now() - harness.leewayMs;
    });
    const replay = (changes: Partial<ReplayRequest> = {}): Promise<ReplayStep> =>
      desk.queue.replay({
        account: "a",
        endpointId: "we_a",
        fromMs,
        toMs: fromMs + 30 * 86_400_000,
        which: "failed",
        replayId: "rpl_1",
        by: "admin_token",
        restart: false,
        after: null,
        max: 500,
        firstInMs: 0,
        spacingMs: 0,
        ...changes,
      });
    /** Runs every step of a replay and adds their counts. */
    const replayAll = async (changes: Partial<ReplayRequest> = {}): Promise<Omit<ReplayStep, "next">> => {
      const sum = { queued: 0, waiting: 0, delivered: 0, failed: 0 };
      let after: string | null = null;
      do {
        const step: ReplayStep = await replay({ ...changes, after });
        sum.queued += step.queued;
        sum.waiting += step.waiting;
        sum.delivered += step.delivered;
        sum.failed += step.failed;
        after = step.next;
      } while (after !== null);
      return sum;
    };
    /** Creates permanently failed deliveries; returns their ids in order of creation. */
    const failedOnes = async (count: number): Promise<string[]> => {
      const ids: string[] = [];
      for (let number = 0; number < count; number++) {
        ids.push(await desk.emit("we_a"));
        await desk.attempt(failedForGood);
      }
      return ids;
    };

    it("queues permanently failed deliveries for one attempt each, and stores the id of the replay in them (WH-48)", async () => {
      const [failed = ""] = await failedOnes(1);
      const delivered = await desk.emit("we_a");
      await desk.attempt(succeeded);
      const waiting = await desk.emit("we_a");
      await desk.attempt(retryIn(600_000));
      const pending = await desk.emit("we_a");
      expect(await replayAll()).toEqual({ queued: 1, waiting: 0, delivered: 0, failed: 0 });
      expect(await desk.find(failed)).toMatchObject({ state: "awaiting_retry", replayId: "rpl_1", reason: null });
      for (const id of [delivered, waiting, pending]) expect(await desk.find(id)).toMatchObject({ replayId: null });
      const claims = await desk.claim();
      expect(claims.map(({ deliveryId }) => deliveryId).toSorted()).toEqual([failed, pending].toSorted());
      expect(claims.find(({ deliveryId }) => deliveryId === failed)).toMatchObject({
        attemptNumber: 2,
        trigger: "manual",
        by: "admin_token",
        isSingle: true,
      });
    });

    it("includes delivered deliveries on request (WH-48)", async () => {
      await failedOnes(1);
      const delivered = await desk.emit("we_a");
      await desk.attempt(succeeded);
      expect(await replayAll({ which: "all" })).toMatchObject({ queued: 2 });
      expect(await desk.find(delivered)).toMatchObject({ state: "awaiting_retry", replayId: "rpl_1" });
    });

    it("restarts the whole retry schedule of each delivery on request (WH-48)", async () => {
      await failedOnes(1);
      await replayAll({ restart: true });
      expect(await desk.claimOne()).toMatchObject({ retriesUsed: 0, isSingle: false, trigger: "manual" });
    });

    it("continues in steps, oldest first, and spreads the deliveries over time (WH-48)", async () => {
      const ids = await failedOnes(7);
      const first = await replay({ max: 3, firstInMs: 10_000, spacingMs: 1_000 });
      expect(first).toMatchObject({ queued: 3, next: expect.any(String) });
      const second = await replay({ max: 3, firstInMs: 13_000, spacingMs: 1_000, after: first.next });
      expect(second).toMatchObject({ queued: 3, next: expect.any(String) });
      const third = await replay({ max: 3, firstInMs: 16_000, spacingMs: 1_000, after: second.next });
      expect(third).toEqual({ queued: 1, waiting: 0, delivered: 0, failed: 0, next: null });
      const dueAtMs = await Promise.all(ids.map(async (id) => (await desk.find(id)).nextAttemptAtMs ?? 0));
      for (const step of [dueAtMs.slice(0, 3), dueAtMs.slice(3, 6)]) {
        expect(step).toEqual([0, 1, 2].map((place) => (step[0] ?? 0) + place * 1_000));
      }
      expect(dueAtMs).toEqual(dueAtMs.toSorted((a, b) => a - b));
      expect(dueAtMs[0]).toBeGreaterThan(harness.state.now() + 10_000 - harness.leewayMs);
    });

    it("a repeated replay queues no delivery twice and returns its progress (WH-48)", async () => {
      const [first = "", second = ""] = await failedOnes(3);
      const both = await Promise.all([replayAll(), replayAll()]);
      expect(both.map(({ queued }) => queued).toSorted()).toEqual([0, 3]);
      for (const claim of await desk.claim()) {
        if (claim.deliveryId === first) await desk.finish(claim, succeeded);
        if (claim.deliveryId === second) await desk.finish(claim, failedForGood);
      }
      expect(await replayAll()).toEqual({ queued: 0, waiting: 1, delivered: 1, failed: 1 });
      expect(await replayAll({ replayId: "rpl_2" })).toEqual({ queued: 1, waiting: 0, delivered: 0, failed: 0 });
      expect((await desk.find(second)).replayId).toBe("rpl_2");
    });

    it("includes only deliveries that were created in its time range (WH-48)", async () => {
      const [early = ""] = await failedOnes(1);
      await harness.advance(60_000);
      const [middle = ""] = await failedOnes(1);
      await harness.advance(60_000);
      const [late = ""] = await failedOnes(1);
      const [, from = 0, to = 0] = await Promise.all(
        [early, middle, late].map(async (id) => (await desk.find(id)).createdAtMs),
      );
      expect(await replayAll({ fromMs: from, toMs: to })).toMatchObject({ queued: 1 });
      expect((await listAll(desk.queue, { replayId: "rpl_1" })).map(({ id }) => id)).toEqual([middle]);
    });

    it("includes only deliveries of its endpoint and account (SEC-22, WH-48)", async () => {
      await desk.insert(endpoint("we_b"));
      await desk.emit("we_a");
      for (const claim of await desk.claim()) await desk.finish(claim, failedForGood);
      expect(await replayAll({ account: "other" })).toMatchObject({ queued: 0 });
      expect(await replayAll({ endpointId: "we_none" })).toMatchObject({ queued: 0 });
      expect(await replayAll({ endpointId: "we_b" })).toMatchObject({ queued: 1 });
      expect((await listAll(desk.queue, { replayId: "rpl_1" })).map(({ endpointId }) => endpointId)).toEqual(["we_b"]);
    });
  });
}
