import { beforeEach, describe, expect, it } from "vitest";
import { periodAt, usageScopeOf } from "../../src/domain/events/events.js";
import type { Ledger, Settlement } from "../../src/domain/metering/ledger.js";
import { type Delivery, deliveryId } from "../../src/domain/webhooks/delivery.js";
import { admission, endpoint, settlement, threshold } from "../support/records.js";
import { DeliveryDesk, event, fanOutAll, listAll } from "./delivery-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/**
 * Tests of the events of a settlement, for reached thresholds and for the request itself, which are written atomically with
 * its usage.
 */
export function describeThresholds(open: OpenState): void {
  describe("Thresholds and deliveries", () => {
    const harness = eachTest(open);
    let ledger: Ledger;
    let count = 0;
    beforeEach(() => {
      ledger = harness.state.ledger;
      count = 0;
    });

    /** Settles one more request with the given number of tokens. */
    const use = async (tokens: number, changes: Partial<Settlement> = {}): Promise<readonly string[]> => {
      count += 1;
      const told = { promptTokens: tokens, completionTokens: 0, ...changes };
      return (await ledger.settle(settlement(`req_${count}`, told))).crossed;
    };
    const insert = (id: string, changes: Parameters<typeof endpoint>[1] = {}): Promise<boolean> =>
      harness.state.endpoints.insert(endpoint(id, changes), 20);
    /** Events in order of creation. */
    const deliveries = async (account = "a"): Promise<readonly Delivery[]> =>
      (await listAll(harness.state.deliveries, { account })).toReversed();
    const payloadOf = async (id: string | undefined): Promise<string> =>
      (await harness.state.deliveries.payload(id ?? "")) ?? "";
    /** Returns the data of the threshold events that were sent. */
    const toldOf = async (): Promise<Record<string, unknown>[]> => {
      const bodies = await Promise.all((await deliveries()).map(({ id }) => payloadOf(id)));
      return bodies.map((body) => JSON.parse(body).data as Record<string, unknown>);
    };

    it("a threshold fires once, in the settlement that reaches it (USE-3)", async () => {
      const thresholds = [threshold("thr_a")];
      expect(await use(999, { thresholds })).toEqual([]);
      expect(await use(1, { thresholds })).toEqual(["thr_a"]);
      expect(await use(5_000, { thresholds })).toEqual([]);
    });

    it("a threshold fires once when a hundred simultaneous settlements reach it (USE-3)", async () => {
      await insert("we_a");
      const thresholds = [threshold("thr_a", { limit: 500n })];
      const crossed = await Promise.all(Array.from({ length: 100 }, () => use(10, { thresholds })));
      expect(crossed.flat()).toEqual(["thr_a"]);
      expect(await toldOf()).toMatchObject([{ threshold_id: "thr_a", threshold: 500, used: 500 }]);
    });

    it("the event contains the sum that includes the triggering settlement (USE-2)", async () => {
      await insert("we_a");
      const [reached] = [threshold("thr_a", { percents: [80] })];
      await use(700, { thresholds: [reached] });
      await use(333, { thresholds: [reached] });
      const month = periodAt("month", harness.state.now());
      const [delivery] = await deliveries();
      expect(delivery).toMatchObject({ endpointId: "we_a", eventType: "usage.threshold_reached", state: "pending" });
      expect(JSON.parse(await payloadOf(delivery?.id))).toEqual({
        id: delivery?.eventId,
        type: "usage.threshold_reached",
        created_at: expect.any(String),
        data: {
          threshold_id: "thr_a",
          metric: "tokens",
          percent: 80,
          threshold: 800,
          scope: { kind: "account", id: "a" },
          period_start: new Date(month.startMs).toISOString(),
          period_end: new Date(month.endMs).toISOString(),
          used: 1_033,
        },
      });
      expect(delivery?.id).toBe(deliveryId(delivery?.eventId ?? "", "we_a"));
    });

    it("a settlement that reaches several values of a threshold causes an event for each, lowest first (USE-5)", async () => {
      await insert("we_a");
      const thresholds = [threshold("thr_a", { percents: [50, 80, 100] })];
      expect(await use(499, { thresholds })).toEqual([]);
      expect(await use(400, { thresholds })).toEqual(["thr_a", "thr_a"]);
      expect(await use(200, { thresholds })).toEqual(["thr_a"]);
      expect((await toldOf()).map(({ percent, used }) => [percent, used])).toEqual([
        [50, 899],
        [80, 899],
        [100, 1_099],
      ]);
    });

    it("a changed value can fire again, and fires at the next usage if it is already reached (USE-5)", async () => {
      expect(await use(1_200, { thresholds: [threshold("thr_a")] })).toEqual(["thr_a"]);
      expect(await use(1, { thresholds: [threshold("thr_a", { limit: 1_100n })] })).toEqual(["thr_a"]);
      expect(await use(1, { thresholds: [threshold("thr_a", { limit: 2_000n })] })).toEqual([]);
      expect(await use(1, { thresholds: [threshold("thr_a")] })).toEqual([]);
    });

    it("a threshold can fire again in a new period, and does not fire again for a past period (USE-6)", async () => {
      const thresholds = [threshold("thr_a")];
      const endedAtMs = harness.state.now();
      expect(await use(1_000, { thresholds })).toEqual(["thr_a"]);
      await harness.advance(periodAt("month", endedAtMs).endMs - endedAtMs);
      expect(await use(1, { thresholds })).toEqual([]);
      expect(await use(1_000, { thresholds, endedAtMs })).toEqual([]);
      expect(await use(1_000, { thresholds })).toEqual(["thr_a"]);
    });

    it("a threshold measures tokens, requests or cost, per day or month (USE-4)", async () => {
      const thresholds = [
        threshold("thr_tokens", { limit: 30n }),
        threshold("thr_requests", { metric: "requests", limit: 3n, period: "day" }),
        threshold("thr_cost", { metric: "cost", limit: 200n }),
      ];
      const changes = { thresholds, promptTokens: 10, completionTokens: 5, costNano: 99 };
      const endedAtMs = periodAt("day", harness.state.now()).startMs;
      expect(await use(0, { ...changes, endedAtMs })).toEqual([]);
      expect(await use(0, { ...changes, endedAtMs })).toEqual(["thr_tokens"]);
      expect([...(await use(0, { ...changes, endedAtMs }))].toSorted()).toEqual(["thr_cost", "thr_requests"]);
    });

    it("a threshold of a key measures only the usage of this key (USE-4)", async () => {
      const ofKey = threshold("thr_key", { apiKeyId: "key_1" });
      await use(5_000, { keyId: "key_2" });
      expect(await use(999, { thresholds: [ofKey] })).toEqual([]);
      expect(await use(1, { thresholds: [ofKey] })).toEqual(["thr_key"]);
      expect(usageScopeOf(ofKey)).toEqual({ kind: "key", id: "key_1" });
    });

    it("sums above 2^53 are compared exactly (USE-9)", async () => {
      const thresholds = [threshold("thr_a", { metric: "cost", limit: 2n ** 53n + 2n })];
      expect(await use(0, { thresholds, costNano: Number.MAX_SAFE_INTEGER })).toEqual([]);
      expect(await use(0, { thresholds, costNano: 2 })).toEqual([]);
      expect(await use(0, { thresholds, costNano: 1 })).toEqual(["thr_a"]);
    });

    it("a repeated settlement causes no events (USE-1)", async () => {
      const thresholds = [threshold("thr_a")];
      const half = settlement("req_1", { promptTokens: 600, completionTokens: 0, thresholds });
      await ledger.settle(half);
      expect(await ledger.settle(half)).toEqual({ duplicate: true, crossed: [] });
      expect(await use(399, { thresholds })).toEqual([]);
    });

    describe("deliveries", () => {
      it("are created for each enabled endpoint of the account that subscribes to the event (WH-14)", async () => {
        await insert("we_a", { events: ["request.completed"] });
        await insert("we_b");
        await insert("we_off", { status: "disabled" });
        await insert("we_failed", { events: ["request.failed"] });
        await insert("we_other", { account: "b" });
        await ledger.admit(admission("req_x"));
        await use(1, { event: event(1) });
        const found = await deliveries();
        expect(found.map(({ endpointId }) => endpointId).toSorted()).toEqual(["we_a", "we_b"]);
        expect(await deliveries("b")).toEqual([]);
        await fanOutAll(harness.state.deliveries);
        expect(await harness.state.deliveries.due()).toBe(2);
      });

      it("contain the original bytes of the event (WH-12)", async () => {
        await insert("we_a");
        const beforeMs = harness.state.now();
        await use(1, { event: event(1) });
        const { id, type, body } = event(1);
        const [delivery] = await deliveries();
        expect(delivery).toEqual({
          id: deliveryId(id, "we_a"),
          account: "a",
          eventId: id,
          eventType: type,
          endpointId: "we_a",
          state: "pending",
          reason: null,
          createdAtMs: expect.any(Number),
          nextAttemptAtMs: expect.any(Number),
          attemptsMade: 0,
          attempts: [],
          isPurged: false,
          replayId: null,
        });
        expect(await payloadOf(delivery?.id)).toBe(body);
        expect(Math.abs((delivery?.createdAtMs ?? 0) - beforeMs)).toBeLessThan(10_000);
      });

      it("are created once per event (WH-11)", async () => {
        await insert("we_a");
        await use(1, { event: event(1) });
        await use(1, { event: event(1) });
        await insert("we_b", { createdAtMs: 2_000 });
        await use(1, { event: event(1) });
        expect((await deliveries()).map(({ endpointId }) => endpointId).toSorted()).toEqual(["we_a", "we_b"]);
      });

      it("are not created by a repeated settlement (USE-1)", async () => {
        await insert("we_a");
        await ledger.settle(settlement("req_x", { event: event(1) }));
        await ledger.settle(settlement("req_x", { event: event(2) }));
        expect(await deliveries()).toHaveLength(1);
      });

      it("are created only for events after the creation of the endpoint, in the order of the events", async () => {
        await use(1, { event: event(1) });
        await insert("we_a");
        for (const number of [2, 3, 4]) await use(1, { event: event(number) });
        expect((await deliveries()).map(({ eventId }) => eventId)).toEqual([2, 3, 4].map((number) => event(number).id));
      });

      it("are not created after the endpoint was disabled or removed", async () => {
        const { endpoints } = harness.state;
        await insert("we_a");
        await insert("we_b");
        await new DeliveryDesk(harness).disable("we_a");
        await endpoints.remove("a", "we_b");
        await use(1, { event: event(1), thresholds: [threshold("thr_a", { limit: 1n })] });
        expect(await deliveries()).toEqual([]);
      });
    });
  });
}
