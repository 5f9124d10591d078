import { beforeEach, describe, expect, it } from "vitest";
import { attemptsKept, type DeliveryFailure } from "../../src/domain/webhooks/delivery.js";
import type { RetryRequest } from "../../src/domain/webhooks/delivery-queue.js";
import { freshHealth } from "../../src/domain/webhooks/endpoint-store.js";
import { endpoint } from "../support/records.js";
import {
  attemptResult,
  DeliveryDesk,
  failedForGood,
  listAll,
  retryIn,
  succeeded,
  timedOut,
} from "./delivery-records.js";
import { eachTest, type OpenState } from "./state-harness.js";

/** The delays of the schedule, which the caller of `finish` passes. */
const scheduleMs = [30_000, 120_000, 600_000, 1_800_000, 7_200_000];

/** Effects of an attempt's result on the delivery, its due time and the endpoint's health. */
export function describeDeliveryEnds(open: OpenState): void {
  describe("results", () => {
    const harness = eachTest(open);
    let desk: DeliveryDesk;
    beforeEach(async () => {
      desk = new DeliveryDesk(harness);
      await desk.insert(endpoint("we_a"));
    });

    describe("of attempts", () => {
      it("the states of a delivery are pending, in flight, awaiting a retry and delivered, in this order (WH-29)", async () => {
        const id = await desk.emit("we_a");
        expect(await desk.find(id)).toMatchObject({ state: "pending", reason: null });
        const first = await desk.claimOne();
        expect(await desk.find(id)).toMatchObject({ state: "delivery_attempted", nextAttemptAtMs: null });
        await desk.finish(first, retryIn(30_000));
        expect(await desk.find(id)).toMatchObject({ state: "awaiting_retry", nextAttemptAtMs: expect.any(Number) });
        await desk.untilDue(id);
        const second = await desk.claimOne();
        expect(await desk.find(id)).toMatchObject({ state: "delivery_attempted", nextAttemptAtMs: null });
        await desk.finish(second, succeeded);
        expect(await desk.find(id)).toMatchObject({ state: "delivered", reason: null, nextAttemptAtMs: null });
      });

      it("a delivery without success ends as permanently failed, with the reason (WH-29)", async () => {
        const reasons: DeliveryFailure[] = ["retries_used_up", "manual_retry_failed"];
        for (const reason of reasons) {
          const id = await desk.emit("we_a");
          await desk.attempt({ state: "permanently_failed", reason });
          expect(await desk.find(id)).toMatchObject({ state: "permanently_failed", reason, nextAttemptAtMs: null });
        }
        await harness.advance(365 * 86_400_000);
        expect(await desk.claim()).toEqual([]);
      });

      it("the next attempt is due exactly one delay after the end of the last attempt, never earlier (WH-25, WH-26)", async () => {
        const id = await desk.emit("we_a");
        for (const [retriesUsed, delayMs] of scheduleMs.entries()) {
          const claim = await desk.claimOne();
          expect(claim).toMatchObject({ retriesUsed, attemptNumber: retriesUsed + 1 });
          await harness.advance(4_000);
          const health = await desk.finish(claim, retryIn(delayMs));
          const dueAtMs = (health?.lastFailureAtMs ?? 0) + delayMs;
          expect(await desk.find(id)).toMatchObject({ state: "awaiting_retry", nextAttemptAtMs: dueAtMs });
          await harness.advance(delayMs - harness.leewayMs);
          expect(await desk.claim()).toEqual([]);
          expect(await desk.queue.due()).toBe(0);
          await harness.advance(harness.leewayMs);
          expect(await desk.queue.due()).toBe(1);
          const next = await desk.claimOne();
          expect(next).toMatchObject({ dueAtMs, retriesUsed: retriesUsed + 1 });
          await desk.queue.handBack([next]);
        }
        await desk.attempt(failedForGood);
        await harness.advance(7_200_000);
        expect(await desk.claim()).toEqual([]);
        expect(await desk.find(id)).toMatchObject({ state: "permanently_failed", attemptsMade: 6 });
      });

      it("each attempt is stored with all its fields, atomically with the new state (WH-44)", async () => {
        const id = await desk.emit("we_a");
        const first = attemptResult({
          startedAtMs: 123,
          latencyMs: 456,
          status: 503,
          ip: "2001:db8::1",
          response: 'busy\n"日本" | <b>',
          retryAfter: "120",
          signatures: ["t=1,v1=0a", "v1,Cg=="],
        });
        await desk.attempt(retryIn(30_000), first);
        const { nextAttemptAtMs, attempts } = await desk.find(id);
        expect(attempts).toEqual([{ ...first, number: 1, trigger: "schedule", by: "", nextAttemptAtMs }]);
        await desk.untilDue(id);
        await desk.attempt(succeeded);
        const last = { ...attemptResult(), number: 2, trigger: "schedule", by: "", nextAttemptAtMs: null };
        expect(await desk.find(id)).toMatchObject({ state: "delivered", attemptsMade: 2 });
        expect((await desk.find(id)).attempts).toEqual([...attempts, last]);
      });

      it("every kind of missing response is stored unchanged (WH-44)", async () => {
        const id = await desk.emit("we_a");
        const errors = ["dns", "connect", "tls", "timeout", "reset", "blocked_address", "bad_response"] as const;
        for (const error of errors) {
          await desk.attempt(retryIn(1_000), attemptResult({ status: null, error, ip: null, response: null }));
          await desk.untilDue(id);
        }
        const { attempts } = await desk.find(id);
        expect(attempts.map(({ status, error }) => ({ status, error }))).toEqual(
          errors.map((error) => ({ status: null, error })),
        );
      });

      it("the newest 20 attempts are stored, and numbering continues (WH-44)", async () => {
        const id = await desk.emit("we_a");
        const made = attemptsKept + 5;
        for (let number = 1; number <= made; number++) {
          const claim = await desk.attempt(retryIn(1_000));
          expect(claim.attemptNumber).toBe(number);
          await desk.untilDue(id);
        }
        const { attempts, attemptsMade } = await desk.find(id);
        expect(attemptsMade).toBe(made);
        expect(attempts.map(({ number }) => number)).toEqual(
          Array.from({ length: attemptsKept }, (_, index) => made - attemptsKept + index + 1),
        );
      });

      it("an endpoint's health counts failures since the last success and stores the time of the first of them (WH-38)", async () => {
        const started = harness.state.now();
        const ids = [await desk.emit("we_a"), await desk.emit("we_a"), await desk.emit("we_a")];
        expect((await desk.endpoint("we_a")).health).toEqual(freshHealth);
        const claims = await desk.claim();
        const [first, second, third] = claims;
        if (first === undefined || second === undefined || third === undefined) throw new Error("three are due");
        const one = await desk.finish(first, retryIn(30_000));
        const since = one?.failingSinceMs ?? 0;
        expect(since).toBeGreaterThanOrEqual(started);
        expect(one).toEqual({ ...freshHealth, lastFailureAtMs: since, failingSinceMs: since, failuresInRow: 1 });
        await harness.advance(5_000);
        const two = await desk.finish(second, failedForGood);
        expect(two).toMatchObject({ failingSinceMs: since, failuresInRow: 2, permanentlyFailed: 1 });
        expect(two?.lastFailureAtMs).toBeGreaterThanOrEqual(since + 5_000);
        expect((await desk.endpoint("we_a")).health).toEqual(two);
        const three = await desk.finish(third, succeeded);
        expect(three).toEqual({
          lastSuccessAtMs: expect.any(Number),
          lastFailureAtMs: two?.lastFailureAtMs,
          failingSinceMs: null,
          failuresInRow: 0,
          permanentlyFailed: 0,
        });
        expect(await desk.state.endpoints.list("a")).toEqual([{ record: endpoint("we_a"), health: three }]);
        await desk.untilDue(ids[0] ?? "");
        await desk.attempt(failedForGood);
        expect((await desk.endpoint("we_a")).health).toMatchObject({
          lastSuccessAtMs: three?.lastSuccessAtMs,
          failuresInRow: 1,
          permanentlyFailed: 1,
        });
      });

      it("an endpoint's health survives an update and is reset when the endpoint is enabled again (WH-38)", async () => {
        await desk.emit("we_a");
        await desk.attempt(failedForGood);
        const { health } = await desk.endpoint("we_a");
        await desk.change("we_a", { description: "changed" });
        expect((await desk.endpoint("we_a")).health).toEqual(health);
        await desk.change("we_a", { status: "disabled", disabledReason: "failing" });
        expect((await desk.endpoint("we_a")).health).toEqual(health);
        await desk.change("we_a", { status: "enabled", disabledReason: null });
        expect((await desk.endpoint("we_a")).health).toEqual(freshHealth);
      });
    });

    describe("of disabled or removed endpoints", () => {
      const endings = [
        { reason: "endpoint_disabled", end: () => desk.disable("we_a") },
        { reason: "endpoint_deleted", end: () => desk.state.endpoints.remove("a", "we_a") },
      ] as const;

      for (const { reason, end } of endings) {
        it(`no delivery is claimed afterwards, and waiting deliveries end as ${reason}, due or not (WH-30)`, async () => {
          await desk.insert(endpoint("we_b"));
          const waiting = await desk.emit("we_a");
          await desk.attempt(retryIn(7_200_000));
          const others = [await desk.emit("we_a"), await desk.emit("we_a")];
          await desk.drain();
          await harness.advance(20_000);
          await end();
          expect((await desk.drain()).filter(({ endpointId }) => endpointId === "we_a")).toEqual([]);
          for (const id of [waiting, ...others]) {
            expect(await desk.find(id)).toMatchObject({ state: "permanently_failed", reason, nextAttemptAtMs: null });
          }
          expect((await desk.find(waiting)).attempts).toHaveLength(1);
          await harness.advance(7_200_000);
          expect((await desk.drain()).every(({ endpointId }) => endpointId === "we_b")).toBe(true);
        });

        it(`an attempt in flight may still succeed (${reason}) (WH-30)`, async () => {
          const ids = [await desk.emit("we_a"), await desk.emit("we_a"), await desk.emit("we_a")];
          const [good, bad, lost] = await desk.claim();
          if (good === undefined || bad === undefined || lost === undefined) throw new Error("three are due");
          await end();
          await desk.drain();
          expect(await desk.find(good.deliveryId)).toMatchObject({ state: "delivery_attempted" });
          expect(await desk.finish(good, succeeded)).not.toBeNull();
          expect(await desk.finish(bad, retryIn(30_000), timedOut)).not.toBeNull();
          await harness.advance(15_000);
          expect(await desk.drain()).toEqual([]);
          const states = await Promise.all(ids.map(async (id) => (await desk.find(id)).state));
          expect(states).toEqual(["delivered", "permanently_failed", "permanently_failed"]);
          expect(await desk.find(bad.deliveryId)).toMatchObject({ reason, attemptsMade: 1 });
          expect(await desk.find(lost.deliveryId)).toMatchObject({ reason, attemptsMade: 0 });
        });

        it(`a claim that is released afterwards ends as ${reason} (WH-30)`, async () => {
          const first = await desk.emit("we_a");
          await desk.attempt(retryIn(30_000));
          await desk.untilDue(first);
          const ids = [first, await desk.emit("we_a")];
          const claims = await desk.claim();
          expect(claims).toHaveLength(2);
          await end();
          await desk.drain();
          await desk.queue.handBack(claims);
          expect(await desk.drain()).toEqual([]);
          for (const id of ids) {
            expect(await desk.find(id)).toMatchObject({ state: "permanently_failed", reason, nextAttemptAtMs: null });
          }
          expect(await Promise.all(ids.map(async (id) => (await desk.find(id)).attemptsMade))).toEqual([1, 0]);
          expect(await desk.queue.due()).toBe(0);
        });
      }

      it("all deliveries of a long queue end, in bounded steps (WH-30)", async () => {
        const ids = await desk.emitMany(1_200, "we_a");
        await desk.disable("we_a");
        expect(await desk.drain()).toEqual([]);
        const failed = await listAll(desk.queue, { state: "permanently_failed" });
        expect(failed.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
        expect(await desk.queue.due()).toBe(0);
        expect(await desk.queue.claim({ max: 1, leaseMs: 15_000 })).toMatchObject({ claims: [], nextInMs: null });
      });

      it("deliveries that ended with a disabled endpoint can be retried when it is enabled again (WH-30)", async () => {
        const id = await desk.emit("we_a");
        await desk.disable("we_a");
        await desk.drain();
        const retry: RetryRequest = { account: "a", deliveryId: id, by: "admin_token", restart: true, again: false };
        expect(await desk.queue.retryNow(retry)).toBe("endpoint_disabled");
        await desk.change("we_a", { status: "enabled", disabledReason: null });
        expect(await desk.claim()).toEqual([]);
        expect(await desk.queue.retryNow(retry)).toBe("queued");
        expect(await desk.attempt(succeeded)).toMatchObject({ deliveryId: id, retriesUsed: 0 });
      });

      it("a result for a removed endpoint returns empty health (WH-30)", async () => {
        const id = await desk.emit("we_a");
        const claim = await desk.claimOne();
        await desk.state.endpoints.remove("a", "we_a");
        expect(await desk.finish(claim, failedForGood)).toEqual(freshHealth);
        expect(await desk.find(id)).toMatchObject({ state: "permanently_failed", attemptsMade: 1 });
        expect(await desk.state.endpoints.list("a")).toEqual([]);
      });
    });
  });
}
