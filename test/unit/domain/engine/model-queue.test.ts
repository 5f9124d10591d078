import { describe, expect, it } from "vitest";
import { Ended } from "../../../../src/domain/call/call-context.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { ModelQueue } from "../../../../src/domain/engine/model-queue.js";
import { FakeClock } from "../../../support/fake-clock.js";

const a = { account: "a", keyId: "ka" };
const b = { account: "b", keyId: "kb" };
const never = new AbortController().signal;

function queueWith({ slots = 1, waitingMax = 4, waitMs = 30_000 }) {
  const clock = new FakeClock();
  const limits = { queueWaitMs: waitMs };
  return { clock, limits, queue: new ModelQueue(clock, { slots, waitingMax, limits }) };
}

const refusal = (promise: Promise<unknown>): Promise<ServiceError> =>
  promise.then(
    () => Promise.reject(new Error("was granted")),
    (error: unknown) => (error instanceof ServiceError ? error : Promise.reject(error)),
  );

describe("ModelQueue", () => {
  it("never grants more slots than exist, and passes a freed one to the next waiter", async () => {
    const { queue, clock } = queueWith({ slots: 2 });
    const first = await queue.acquire(a, never);
    await queue.acquire(a, never);
    const third = queue.acquire(b, never);
    expect([queue.busy, queue.waiting]).toEqual([2, 1]);
    clock.advance(250);
    first.release();
    first.release();
    expect((await third).queueMs).toBe(250);
    expect([queue.busy, queue.waiting]).toEqual([2, 0]);
  });

  it("a full queue rejects at once with an estimated wait between 1 and 30 s (REL-5)", async () => {
    const { queue } = queueWith({ waitingMax: 1 });
    await queue.acquire(a, never);
    void queue.acquire(a, never);
    const error = await refusal(queue.acquire(a, never));
    expect(error.code).toBe("server_is_overloaded");
    expect(error.retryAfterMs).toBeGreaterThanOrEqual(1_000);
    expect(error.retryAfterMs).toBeLessThanOrEqual(30_000);
  });

  it("a key with fewer waiting requests displaces the newest request of the key with the most (REL-5)", async () => {
    const { queue } = queueWith({ waitingMax: 2 });
    const running = await queue.acquire(a, never);
    const older = queue.acquire(a, never);
    const newest = refusal(queue.acquire(a, never));
    const light = queue.acquire(b, never);
    expect((await newest).code).toBe("server_is_overloaded");
    running.release();
    (await older).release();
    (await light).release();
    expect([queue.busy, queue.waiting]).toEqual([0, 0]);
  });

  it("rejects a request that waited too long and leaves the queue empty", async () => {
    const { queue, clock } = queueWith({ waitMs: 30_000 });
    await queue.acquire(a, never);
    const late = refusal(queue.acquire(b, never));
    clock.advance(30_000);
    expect((await late).message).toContain("30 s");
    expect([queue.waiting, clock.pending]).toEqual([0, 0]);
  });

  it("each wait uses the value of limits.queue_wait at its start", async () => {
    const { queue, clock, limits } = queueWith({ waitMs: 30_000 });
    await queue.acquire(a, never);
    const early = refusal(queue.acquire(b, never));
    limits.queueWaitMs = 1_000;
    const late = refusal(queue.acquire(b, never));
    clock.advance(1_000);
    expect((await late).message).toContain("within 1 s");
    expect(queue.waiting).toBe(1);
    clock.advance(29_000);
    expect((await early).message).toContain("within 30 s");
  });

  it("rejects at once with the reason when the client disconnects", async () => {
    const { queue, clock } = queueWith({});
    await queue.acquire(a, never);
    const abort = new AbortController();
    const left = refusal(queue.acquire(b, abort.signal));
    abort.abort(new Ended("client_left"));
    expect((await left).code).toBe("client_closed_request");
    expect([queue.waiting, clock.pending]).toEqual([0, 0]);
    expect((await refusal(queue.acquire(b, abort.signal))).code).toBe("client_closed_request");
  });

  it("never rejects a request that already ran a prompt, even when full", async () => {
    const { queue } = queueWith({ waitingMax: 0 });
    const running = await queue.acquire(a, never);
    const next = queue.acquire(a, never, true);
    expect(queue.waiting).toBe(1);
    running.release();
    (await next).release();
  });
});
