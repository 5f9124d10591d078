import { beforeEach, describe, expect, it } from "vitest";
import { deliveredKeptMs, failedKeptMs, type RetryOutcome } from "../../src/domain/webhooks/delivery-queue.js";
import { endpoint } from "../support/records.js";
import { DeliveryDesk, failedForGood, listAll, retryIn, succeeded } from "./delivery-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/** How long a delivery is kept after its end. */
export function describeDeliveryKeeping(open: OpenState): void {
  describe("retention", () => {
    const harness = eachTest(open);
    let desk: DeliveryDesk;
    beforeEach(async () => {
      desk = new DeliveryDesk(harness);
      await desk.insert(endpoint("we_a"));
    });
    const retry = (deliveryId: string): Promise<RetryOutcome> =>
      desk.queue.retryNow({ account: "a", deliveryId, by: "admin_token", restart: false, again: true });

    const ends = [
      { what: "delivered", outcome: succeeded, keptMs: deliveredKeptMs, times: "24 h and 48 h" },
      { what: "failed", outcome: failedForGood, keptMs: failedKeptMs, times: "30 d and 60 d" },
    ] as const;
    for (const { what, outcome, keptMs, times } of ends) {
      it(`a ${what} delivery loses its payload, and later its record, ${times} after its end (WH-50)`, async () => {
        const id = await desk.emit("we_a");
        await harness.advance(3_600_000);
        await desk.attempt(outcome);
        const ended = await desk.find(id);
        await harness.advance(keptMs - harness.leewayMs);
        await desk.purgeAll();
        expect(await desk.find(id)).toEqual(ended);
        expect(await desk.queue.payload(id)).not.toBeNull();

        await harness.advance(harness.leewayMs);
        await desk.purgeAll();
        expect(await desk.find(id)).toEqual({ ...ended, attempts: [], isPurged: true });
        expect(await desk.queue.payload(id)).toBeNull();
        expect((await listAll(desk.queue, { state: ended.state })).map((each) => each.id)).toEqual([id]);

        await harness.advance(keptMs - harness.leewayMs);
        await desk.purgeAll();
        expect(await desk.queue.find(id)).not.toBeNull();
        await harness.advance(harness.leewayMs);
        await desk.purgeAll();
        expect(await desk.queue.find(id)).toBeNull();
        expect(await listAll(desk.queue)).toEqual([]);
        expect(await retry(id)).toBe("unknown");
      });
    }

    it("a delivery without payload cannot be sent again, by a retry or by a replay (WH-50)", async () => {
      const id = await desk.emit("we_a");
      const fromMs = (await desk.find(id)).createdAtMs;
      await desk.attempt(failedForGood);
      await harness.advance(failedKeptMs);
      await desk.purgeAll();
      expect(await retry(id)).toBe("purged");
      const replay = { replayId: "rpl_1", by: "admin_token", restart: true, firstInMs: 0, spacingMs: 0 };
      const range = { account: "a", endpointId: "we_a", fromMs, toMs: fromMs + 1, which: "all" } as const;
      expect(await desk.queue.replay({ ...range, ...replay, after: null, max: 500 })).toMatchObject({ queued: 0 });
      expect(await desk.claim()).toEqual([]);
      expect(await desk.find(id)).toMatchObject({ state: "permanently_failed", isPurged: true });
    });

    it("an open delivery is kept at any age (WH-50)", async () => {
      const pending = await desk.emit("we_a");
      const waiting = await desk.emit("we_a");
      await desk.queue.handBack(await desk.claim(1));
      await harness.advance(3 * failedKeptMs);
      await desk.purgeAll();
      for (const id of [pending, waiting]) expect(await desk.find(id)).toMatchObject({ isPurged: false });
      expect(await desk.claim()).toHaveLength(2);
    });

    it("retention of a delivery that is sent again starts at its new end (WH-50)", async () => {
      const id = await desk.emit("we_a");
      await desk.attempt(succeeded);
      await harness.advance(deliveredKeptMs - 3_600_000);
      expect(await retry(id)).toBe("queued");
      await desk.attempt(retryIn(30_000));
      await harness.advance(deliveredKeptMs);
      await desk.purgeAll();
      expect(await desk.find(id)).toMatchObject({ isPurged: false, attemptsMade: 2 });
      await desk.attempt(succeeded);
      await harness.advance(deliveredKeptMs - 3_600_000);
      await desk.purgeAll();
      expect(await desk.find(id)).toMatchObject({ isPurged: false });
      await harness.advance(3_600_000);
      await desk.purgeAll();
      expect(await desk.find(id)).toMatchObject({ isPurged: true });
    });

    it("a purge removes at most the requested number, and the next call continues (WH-50)", async () => {
      const ids = await desk.emitMany(5, "we_a");
      for (const claim of await desk.claim()) await desk.finish(claim, succeeded);
      await harness.advance(deliveredKeptMs);
      const purgedOf = async (): Promise<number> =>
        (await Promise.all(ids.map((id) => desk.find(id)))).filter(({ isPurged }) => isPurged).length;
      for (let step = 0; step < 3; step++) {
        const before = await purgedOf();
        expect(await desk.state.purge(2)).toBeLessThanOrEqual(2);
        expect(await purgedOf()).toBeLessThanOrEqual(before + 2);
      }
      await desk.purgeAll();
      expect(await purgedOf()).toBe(5);
    });

    it("a purge covers all accounts (WH-50)", async () => {
      const accounts = Array.from({ length: 5 }, (_, number) => `account_${number}`);
      for (const account of accounts) {
        await desk.insert(endpoint(`we_of_${account}`, { account }));
        await desk.emit(`we_of_${account}`, { account });
        await desk.attempt(succeeded);
      }
      await harness.advance(2 * deliveredKeptMs);
      await desk.purgeAll();
      expect(await listAll(desk.queue)).toEqual([]);
    });
  });
}
