import { beforeEach, describe, expect, it } from "vitest";
import type { DeliveryFilter } from "../../src/domain/webhooks/delivery-queue.js";
import { endpoint } from "../support/records.js";
import { anyDelivery, DeliveryDesk, failedForGood, listAll, retryIn, succeeded } from "./delivery-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/** Reads of deliveries: one, filtered pages, and the backlog. */
export function describeDeliveryLists(open: OpenState): void {
  describe("lists", () => {
    const harness = eachTest(open);
    let desk: DeliveryDesk;
    beforeEach(() => {
      desk = new DeliveryDesk(harness);
    });
    const idsOf = async (filter: Partial<DeliveryFilter>): Promise<string[]> =>
      (await listAll(desk.queue, filter)).map(({ id }) => id);

    it("lists the deliveries of all accounts in pages, newest first (WH-45)", async () => {
      const accounts = ["a", "b", "c"];
      for (const account of accounts) await desk.insert(endpoint(`we_${account}`, { account }));
      const ids: string[] = [];
      for (let number = 0; number < 12; number++) {
        const account = accounts[number % 3] ?? "a";
        ids.push(await desk.emit(`we_${account}`, { account }));
        await harness.advance(1_000);
      }
      const found: string[] = [];
      const pages: number[] = [];
      let after: string | null = null;
      do {
        const page = await desk.queue.list(anyDelivery, { limit: 5, after });
        found.push(...page.deliveries.map(({ id }) => id));
        pages.push(page.deliveries.length);
        after = page.next;
        expect(after ?? "").not.toMatch(/\s/);
      } while (after !== null);
      expect(found).toEqual(ids.toReversed());
      expect(pages).toEqual([5, 5, 2]);
      expect(await idsOf({ account: "b" })).toEqual(ids.filter((_, number) => number % 3 === 1).toReversed());
      expect(await idsOf({ account: "nobody" })).toEqual([]);
    });

    it("lists all deliveries of the same millisecond across pages, newest first (WH-45)", async () => {
      await desk.insert(endpoint("we_a"));
      const ids: string[] = [];
      for (let number = 0; number < 10; number++) ids.push(await desk.emit("we_a"));
      for (const limit of [1, 3, 10]) {
        const found: string[] = [];
        let after: string | null = null;
        do {
          const page = await desk.queue.list({ ...anyDelivery, account: "a" }, { limit, after });
          found.push(...page.deliveries.map(({ id }) => id));
          after = page.next;
        } while (after !== null);
        expect(found).toEqual(ids.toReversed());
      }
    });

    it("deliveries that are created between two pages do not shift the others (WH-45)", async () => {
      await desk.insert(endpoint("we_a"));
      const ids = [await desk.emit("we_a"), await desk.emit("we_a"), await desk.emit("we_a")];
      await harness.advance(10);
      const first = await desk.queue.list(anyDelivery, { limit: 2, after: null });
      await desk.emit("we_a");
      const second = await desk.queue.list(anyDelivery, { limit: 2, after: first.next });
      expect([...first.deliveries, ...second.deliveries].map(({ id }) => id)).toEqual(ids.toReversed());
      expect(second.next).toBeNull();
    });

    it("combines filters by state, endpoint, type and time (WH-45)", async () => {
      await desk.insert(endpoint("we_a"));
      await desk.insert(endpoint("we_b", { events: ["request.failed"] }));
      const delivered = await desk.emit("we_a");
      await desk.attempt(succeeded);
      const failed = await desk.emit("we_a");
      await desk.attempt(failedForGood);
      const waiting = await desk.emit("we_a");
      await desk.attempt(retryIn(600_000));
      const held = await desk.emit("we_a");
      await desk.claimOne();
      await harness.advance(1_000);
      const pending = await desk.emit("we_a", { type: "request.failed" });
      const [other = ""] = await idsOf({ endpointId: "we_b" });
      const { createdAtMs } = await desk.find(pending);

      expect(await idsOf({ state: "delivered" })).toEqual([delivered]);
      expect(await idsOf({ state: "permanently_failed" })).toEqual([failed]);
      expect(await idsOf({ state: "awaiting_retry" })).toEqual([waiting]);
      expect(await idsOf({ state: "delivery_attempted" })).toEqual([held]);
      expect((await idsOf({ state: "pending" })).toSorted()).toEqual([pending, other].toSorted());
      expect((await idsOf({ eventType: "request.failed" })).toSorted()).toEqual([pending, other].toSorted());
      expect(await idsOf({ eventType: "request.failed", endpointId: "we_a" })).toEqual([pending]);
      expect(await idsOf({ eventType: "usage.threshold_reached" })).toEqual([]);
      expect(await idsOf({ toMs: createdAtMs })).toEqual([held, waiting, failed, delivered]);
      expect((await idsOf({ fromMs: createdAtMs })).toSorted()).toEqual([pending, other].toSorted());
      expect(await idsOf({ fromMs: createdAtMs + 1 })).toEqual([]);
      expect(await idsOf({ account: "a", state: "delivered", endpointId: "we_b" })).toEqual([]);
      expect(await idsOf({ replayId: "rpl_none" })).toEqual([]);
    });

    it("finds a match among many deliveries that do not match (WH-45)", async () => {
      await desk.insert(endpoint("we_a"));
      const [first = ""] = await desk.emitMany(1_500, "we_a");
      await desk.attempt(failedForGood);
      expect(await idsOf({ state: "permanently_failed" })).toEqual([first]);
      const page = await desk.queue.list({ ...anyDelivery, state: "permanently_failed" }, { limit: 5, after: null });
      expect(page.deliveries.map(({ id }) => id)).toEqual([first]);
    });

    it("finds a delivery of any account by its id", async () => {
      for (const account of ["a", "b", "c"]) {
        await desk.insert(endpoint(`we_${account}`, { account }));
        const id = await desk.emit(`we_${account}`, { account });
        expect(await desk.find(id)).toMatchObject({ id, account, endpointId: `we_${account}` });
      }
      expect(await desk.queue.find("dlv_none")).toBeNull();
    });

    it("lists each endpoint's open deliveries and the due time of the oldest, longest wait first", async () => {
      for (const account of ["a", "b", "c"]) await desk.insert(endpoint(`we_${account}`, { account }));
      expect(await desk.queue.backlog()).toEqual([]);
      await desk.emit("we_b", { account: "b" });
      const { createdAtMs } = await desk.find(await desk.emit("we_b", { account: "b" }));
      await desk.claim(1);
      await harness.advance(10_000);
      await desk.emit("we_a");
      const [longest, second, ...others] = await desk.queue.backlog();
      expect(longest).toMatchObject({ account: "b", endpointId: "we_b", open: 2 });
      expect(Math.abs((longest?.oldestDueAtMs ?? 0) - createdAtMs)).toBeLessThanOrEqual(harness.leewayMs);
      expect(second).toMatchObject({ account: "a", endpointId: "we_a", open: 1 });
      expect(others).toEqual([]);
      for (const claim of await desk.claim()) await desk.finish(claim, retryIn(60_000));
      expect(await desk.queue.backlog()).toMatchObject([
        { endpointId: expect.any(String), oldestDueAtMs: null },
        { endpointId: expect.any(String), oldestDueAtMs: null },
      ]);
    });

    it("omits endpoints without open deliveries", async () => {
      await desk.insert(endpoint("we_a"));
      await desk.emit("we_a");
      await desk.attempt(succeeded);
      expect(await desk.queue.backlog()).toEqual([]);
    });

    it("counts deliveries that are due and unclaimed", async () => {
      await desk.insert(endpoint("we_a"));
      await desk.insert(endpoint("we_b", { account: "b" }));
      await desk.emitMany(3, "we_a");
      await desk.emit("we_b", { account: "b" });
      expect(await desk.queue.due()).toBe(4);
      const claim = await desk.claimOne();
      expect(await desk.queue.due()).toBe(3);
      await desk.finish(claim, retryIn(30_000));
      expect(await desk.queue.due()).toBe(3);
      await harness.advance(30_000);
      expect(await desk.queue.due()).toBe(4);
    });
  });
}
