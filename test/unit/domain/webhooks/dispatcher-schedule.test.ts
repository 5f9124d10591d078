import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RetryRequest } from "../../../../src/domain/webhooks/delivery-queue.js";
import { answered, Dispatching, day, scheduleMs } from "./dispatch-fixture.js";

let dispatching: Dispatching;
beforeEach(() => {
  dispatching = new Dispatching();
});
afterEach(() => dispatching.close());

/** Time between the attempts that were made, in milliseconds. */
function gaps(): number[] {
  const times = dispatching.receivers.got.map(({ atMs }) => atMs);
  return times.slice(1).map((atMs, i) => atMs - (times[i] ?? 0));
}

function retry(deliveryId: string, changes: Partial<RetryRequest> = {}) {
  const request = { account: "a", deliveryId, by: "session:s", restart: false, again: false, ...changes };
  return dispatching.state.deliveries.retryNow(request);
}

describe("the schedule", () => {
  it("makes six attempts, each due exactly one delay after the end of the last one, and no seventh (WH-25, WH-26, WH-27)", async () => {
    const { receivers, clock } = dispatching;
    await dispatching.insert("we_a");
    receivers.answer = () => receivers.after(700, answered(503));
    await dispatching.startIdle();
    const id = await dispatching.emit("we_a");
    await dispatching.now();
    for (const [i, delayMs] of scheduleMs.entries()) {
      expect(receivers.got).toHaveLength(i + 1);
      await dispatching.pass(700);
      expect(await dispatching.find(id)).toMatchObject({
        state: "awaiting_retry",
        attemptsMade: i + 1,
        nextAttemptAtMs: clock.now() + delayMs,
      });
      await dispatching.pass(delayMs - 1);
      expect(receivers.got).toHaveLength(i + 1);
      await dispatching.pass(1);
    }
    await dispatching.pass(700);
    expect(gaps()).toEqual(scheduleMs.map((delayMs) => delayMs + 700));
    expect(await dispatching.find(id)).toMatchObject({
      state: "permanently_failed",
      reason: "retries_used_up",
      nextAttemptAtMs: null,
    });
    await dispatching.pass(day, 3_600_000);
    expect(receivers.got).toHaveLength(6);
    expect(new Set(receivers.got.map(({ body }) => body)).size).toBe(1);
  });

  it("a manual retry after the last failure is one attempt, and its failure is final (WH-46)", async () => {
    await dispatching.insert("we_a");
    await dispatching.startIdle();
    const id = await dispatching.emit("we_a");
    await dispatching.failForGood(id);
    expect(await retry(id)).toBe("queued");
    await dispatching.soon();
    expect(await dispatching.find(id)).toMatchObject({ state: "permanently_failed", reason: "manual_retry_failed" });
    await dispatching.pass(day, 3_600_000);
    expect(dispatching.receivers.got).toHaveLength(7);
    expect((await dispatching.find(id)).attempts.at(-1)).toMatchObject({
      number: 7,
      trigger: "manual",
      by: "session:s",
    });
    dispatching.receivers.answer = () => answered(204);
    await retry(id);
    await dispatching.soon();
    expect(await dispatching.find(id)).toMatchObject({ state: "delivered", reason: null, attemptsMade: 8 });
  });

  it("a restarted schedule has five retries (WH-46)", async () => {
    await dispatching.insert("we_a");
    await dispatching.startIdle();
    const id = await dispatching.emit("we_a");
    await dispatching.failForGood(id);
    await retry(id, { restart: true });
    await dispatching.soon();
    for (const delayMs of scheduleMs) await dispatching.pass(delayMs);
    await dispatching.pass(day, 3_600_000);
    expect(gaps().slice(6)).toEqual(scheduleMs);
    expect(await dispatching.find(id)).toMatchObject({ state: "permanently_failed", attemptsMade: 12 });
  });

  it("a manual retry replaces the scheduled retry of a waiting delivery (WH-47)", async () => {
    await dispatching.insert("we_a");
    dispatching.receivers.answer = () => answered(500);
    await dispatching.startIdle();
    const id = await dispatching.emit("we_a");
    await dispatching.now();
    await dispatching.pass(9_995);
    await dispatching.soon();
    await retry(id);
    await dispatching.now();
    for (const delayMs of scheduleMs.slice(1)) await dispatching.pass(delayMs);
    await dispatching.pass(day, 3_600_000);
    expect(gaps()).toEqual([10_000, ...scheduleMs.slice(1)]);
  });

  it("Retry-After and status 410 of a receiver are recorded but do not change the schedule (WH-28)", async () => {
    const { receivers } = dispatching;
    await dispatching.insert("we_a");
    receivers.answer = () => ({ ...answered(410), retryAfter: "3600" });
    await dispatching.startIdle();
    const id = await dispatching.emit("we_a");
    await dispatching.now();
    await dispatching.pass(30_000);
    expect(gaps()).toEqual([30_000]);
    expect((await dispatching.find(id)).attempts).toMatchObject(
      [1, 2].map((number) => ({ number, status: 410, retryAfter: "3600" })),
    );
  });
});
