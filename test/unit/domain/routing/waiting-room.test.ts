import { describe, expect, it } from "vitest";
import { Ended } from "../../../../src/domain/call/call-context.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { rank } from "../../../../src/domain/routing/pick.js";
import type { RoutedDeployment, Slot } from "../../../../src/domain/routing/waiting-room.js";
import { AbortSource } from "../../../../src/lib/abort-source.js";
import { requestOf, roomWith } from "./routing-fixture.js";

const a = requestOf<RoutedDeployment>({ owner: { account: "a", keyId: "ka" } });
const b = requestOf<RoutedDeployment>({ owner: { account: "b", keyId: "kb" } });
const never = new AbortSource();

const refusal = (promise: Promise<unknown>): Promise<ServiceError> =>
  promise.then(
    () => Promise.reject(new Error("was granted")),
    (error: unknown) => (error instanceof ServiceError ? error : Promise.reject(error)),
  );

describe("WaitingRoom of one deployment", () => {
  it("never grants more slots than exist, and passes a freed one to the next waiting request", async () => {
    const { room, clock } = roomWith({ slots: [2] });
    const first = await room.acquire(a, never);
    await room.acquire(a, never);
    const third = room.acquire(b, never);
    expect([room.busy, room.waiting]).toEqual([2, 1]);
    clock.advance(250);
    first.release();
    first.release();
    expect((await third).queueMs).toBe(250);
    expect([room.busy, room.waiting]).toEqual([2, 0]);
  });

  it("a full queue rejects immediately with an estimated wait between 1 and 30 s (REL-5)", async () => {
    const { room } = roomWith({ waitingMax: 1 });
    await room.acquire(a, never);
    void room.acquire(a, never);
    const error = await refusal(room.acquire(a, never));
    expect(error.code).toBe("server_is_overloaded");
    expect(error.retryAfterMs).toBeGreaterThanOrEqual(1_000);
    expect(error.retryAfterMs).toBeLessThanOrEqual(30_000);
  });

  it("a key with fewer waiting requests displaces the newest request of the key with the most (REL-5)", async () => {
    const { room } = roomWith({ waitingMax: 2 });
    const running = await room.acquire(a, never);
    const older = room.acquire(a, never);
    const newest = refusal(room.acquire(a, never));
    const light = room.acquire(b, never);
    expect((await newest).code).toBe("server_is_overloaded");
    running.release();
    (await older).release();
    (await light).release();
    expect([room.busy, room.waiting]).toEqual([0, 0]);
  });

  it("a freed slot goes to an interactive request that came last, and the maximum of waiting requests still applies (KEY-24)", async () => {
    const { room } = roomWith({ waitingMax: 2 });
    const running = await room.acquire(a, never);
    const batch = requestOf<RoutedDeployment>({ owner: { account: "b", keyId: "kb", priority: "batch" } });
    const interactive = requestOf<RoutedDeployment>({ owner: { account: "c", keyId: "kc", priority: "interactive" } });
    const order: string[] = [];
    void room.acquire(batch, never).then(() => order.push("batch"));
    void room.acquire(interactive, never).then((slot) => {
      order.push("interactive");
      slot.release();
    });
    expect((await refusal(room.acquire(batch, never))).code).toBe("server_is_overloaded");
    running.release();
    await new Promise(setImmediate);
    expect(order).toEqual(["interactive", "batch"]);
  });

  it("rejects a request that waited too long and leaves the queue empty", async () => {
    const { room, clock } = roomWith({ waitMs: 30_000 });
    await room.acquire(a, never);
    const late = refusal(room.acquire(b, never));
    clock.advance(30_000);
    expect((await late).message).toContain("30 s");
    expect([room.waiting, clock.pending]).toEqual([0, 0]);
  });

  it("each wait uses the value of limits.queue_wait at its start", async () => {
    const { room, clock, limits } = roomWith({ waitMs: 30_000 });
    await room.acquire(a, never);
    const early = refusal(room.acquire(b, never));
    limits.queueWaitMs = 1_000;
    const late = refusal(room.acquire(b, never));
    clock.advance(1_000);
    expect((await late).message).toContain("within 1 s");
    expect(room.waiting).toBe(1);
    clock.advance(29_000);
    expect((await early).message).toContain("within 30 s");
  });

  it("rejects immediately with the reason when the client disconnects", async () => {
    const { room, clock } = roomWith({});
    await room.acquire(a, never);
    const abort = new AbortController();
    const left = refusal(room.acquire(b, abort.signal));
    abort.abort(new Ended("client_left"));
    expect((await left).code).toBe("client_closed_request");
    expect([room.waiting, clock.pending]).toEqual([0, 0]);
    expect((await refusal(room.acquire(b, abort.signal))).code).toBe("client_closed_request");
  });

  it("never rejects a request that already ran a prompt, even when full", async () => {
    const { room } = roomWith({ waitingMax: 0 });
    const running = await room.acquire(a, never);
    const next = room.acquire(a, never, true);
    expect(room.waiting).toBe(1);
    running.release();
    (await next).release();
  });
});

describe("WaitingRoom of several deployments", () => {
  it("12 requests on a slow (2 s) and a fast (50 ms) deployment end within 3 s", async () => {
    const { room, clock } = roomWith({ slots: [1, 1], waitingMax: 12 });
    const startMs = clock.now();
    let endMs = 0;
    const run = async (): Promise<string> => {
      const slot = room.tryAcquire(a) ?? (await room.acquire(a, never));
      await new Promise<void>((resolve) => {
        clock.after(slot.deployment.id === "d0" ? 2_000 : 50, resolve);
      });
      endMs = clock.now();
      slot.release();
      return slot.deployment.id;
    };
    const all = Promise.all(Array.from({ length: 12 }, run));
    for (let ms = 0; ms < 3_000; ms += 10) {
      clock.advance(10);
      await new Promise(setImmediate);
    }
    const used = await all;
    expect(endMs - startMs).toBeLessThanOrEqual(3_000);
    expect(used.filter((id) => id === "d1").length).toBe(11);
  });

  it("a freed slot goes to the next request in fair order that may use its deployment", async () => {
    const { room, deployments } = roomWith({ slots: [1, 1] });
    const [d0, d1] = deployments;
    if (d0 === undefined || d1 === undefined) throw new Error("two deployments are needed");
    const slots = [await room.acquire(a, never), await room.acquire(a, never)];
    const order: string[] = [];
    const wait = (name: string, request: typeof a): void => {
      void room.acquire(request, never).then((slot) => order.push(`${name} on ${slot.deployment.id}`));
    };
    wait("first of a, tried d0", { ...a, tried: [d0] });
    wait("second of a", a);
    wait("first of b, only d1", { ...b, accepts: (deployment) => deployment === d1 });
    slots.find(({ deployment }) => deployment === d0)?.release();
    await new Promise(setImmediate);
    expect(order).toEqual(["second of a on d0"]);
    slots.find(({ deployment }) => deployment === d1)?.release();
    await new Promise(setImmediate);
    expect(order).toEqual(["second of a on d0", "first of b, only d1 on d1"]);
    expect([room.busy, room.waiting]).toEqual([2, 1]);
  });

  it("a request does not wait behind requests that may not use the free slot", async () => {
    const { room, deployments } = roomWith({ slots: [1, 1] });
    const [d0] = deployments;
    if (d0 === undefined) throw new Error("no deployment");
    const slots = [await room.acquire(a, never), await room.acquire(a, never)];
    void room.acquire({ ...a, tried: [d0] }, never);
    slots.find(({ deployment }) => deployment === d0)?.release();
    expect([room.waiting, room.tryAcquire(b)]).toEqual([1, null]);
    expect((await room.acquire(b, never)).deployment).toBe(d0);
  });

  it("a new request does not overtake waiting ones when an ejection has ended in the meantime", async () => {
    const { room, clock, deployments } = roomWith({ slots: [1, 1] });
    const [d0] = deployments;
    if (d0 === undefined) throw new Error("no deployment");
    for (let i = 0; i < 5; i++) d0.ejection.failed(d0.ejection.begin(), "refused");
    await room.acquire(a, never);
    const older = room.acquire(a, never);
    expect(room.waiting).toBe(1);
    clock.advance(10_000);
    void room.acquire(b, never);
    expect((await older).deployment).toBe(d0);
    expect(room.waiting).toBe(1);
  });

  it("gives one of several waiting requests to a deployment whose probe is due", async () => {
    const { room, clock, deployments } = roomWith({ slots: [4, 1] });
    const [d0, d1] = deployments;
    if (d0 === undefined || d1 === undefined) throw new Error("two deployments are needed");
    for (let i = 0; i < 5; i++) d0.ejection.failed(d0.ejection.begin(), "refused");
    const running = await room.acquire(a, never);
    for (let i = 0; i < 3; i++) void room.acquire(a, never);
    clock.advance(10_000);
    running.release();
    await new Promise(setImmediate);
    expect([d0.outstandingRequests, d1.outstandingRequests, room.waiting]).toEqual([1, 1, 1]);
  });

  it("new deployments serve requests that wait, and slots of removed ones can still be released", async () => {
    const { room, deployments } = roomWith({ slots: [1, 1] });
    const [d0, d1] = deployments;
    if (d0 === undefined || d1 === undefined) throw new Error("two deployments are needed");
    room.deployments = [d0];
    const old = await room.acquire(a, never);
    const waiting = room.acquire(b, never);
    room.deployments = [d1];
    expect((await waiting).deployment).toBe(d1);
    old.release();
    expect([room.busy, d0.outstandingRequests, d0.outstandingTokens]).toEqual([1, 0, 0]);
  });

  it("hasChoice tells whether an untried deployment is left, also while all slots are in use", async () => {
    const { room, deployments } = roomWith({ slots: [1, 1] });
    const [d0] = deployments;
    if (d0 === undefined) throw new Error("no deployment");
    await room.acquire(a, never);
    await room.acquire(a, never);
    expect(room.hasChoice({ ...a, tried: [d0] })).toBe(true);
    expect(room.hasChoice({ ...a, tried: deployments })).toBe(false);
  });

  it("a retry that waits for its last untried deployment fails with the error of its last try when that deployment is ejected", async () => {
    const { room, clock, deployments } = roomWith({ slots: [1, 1] });
    const [d0, d1] = deployments;
    if (d0 === undefined || d1 === undefined) throw new Error("two deployments are needed");
    const running = [await room.acquire(a, never), await room.acquire(a, never)];
    const failure = new ServiceError("upstream_error", "the first try failed");
    const retry = refusal(room.acquire({ ...a, tried: [d0], failure }, never));
    const other = room.acquire(b, never);
    for (let i = 0; i < 5; i++) d1.ejection.failed(d1.ejection.begin(), "refused");
    running.find(({ deployment }) => deployment === d1)?.release();
    expect(await retry).toBe(failure);
    expect(room.waiting).toBe(1);
    running.find(({ deployment }) => deployment === d0)?.release();
    expect((await other).deployment).toBe(d0);
    expect([room.waiting, clock.pending]).toEqual([0, 0]);
  });

  it("searches 512 waiting requests quickly when none of them can use the free slot", async () => {
    const { room, deployments } = roomWith({ slots: [1, 8], waitingMax: 512 });
    const [d0, d1] = deployments;
    if (d0 === undefined || d1 === undefined) throw new Error("two deployments are needed");
    for (let i = 0; i < 5; i++) d1.ejection.failed(d1.ejection.begin(), "refused");
    let picks = 0;
    const counted = { ...d0 };
    Object.defineProperty(counted, "ejection", {
      get: () => {
        picks += 1;
        return d0.ejection;
      },
    });
    room.deployments = [counted, d1];
    await room.acquire(a, never);
    for (let i = 0; i < 512; i++) void room.acquire(a, never);
    picks = 0;
    await refusal(room.acquire(a, never));
    expect(picks).toBeLessThan(50);
  });
});

describe("Slot", () => {
  function slotOf(slot: Slot<RoutedDeployment> | null): Slot<RoutedDeployment> {
    if (slot === null) throw new Error("no slot is free");
    return slot;
  }

  it("counts the estimated tokens until they are processed, and never below 0", () => {
    const { room, deployments } = roomWith({ slots: [4] });
    const tokens = (): number | undefined => deployments[0]?.outstandingTokens;
    const slot = slotOf(room.tryAcquire(requestOf({ tokens: 1_000 })));
    const other = slotOf(room.tryAcquire(requestOf({ tokens: 50 })));
    expect(tokens()).toBe(1_050);
    slot.processed(900);
    expect(tokens()).toBe(150);
    slot.processed(900);
    expect(tokens()).toBe(50);
    slot.release();
    slot.processed(10);
    other.release();
    other.release();
    expect([tokens(), deployments[0]?.outstandingRequests, room.busy]).toEqual([0, 0, 0]);
  });

  it("after a probe is released without a result, another request may probe", () => {
    const { room, clock, deployments } = roomWith({ slots: [4, 4] });
    const [d0] = deployments;
    if (d0 === undefined) throw new Error("no deployment");
    for (let i = 0; i < 5; i++) d0.ejection.failed(d0.ejection.begin(), "refused");
    clock.advance(10_000);
    const onD0 = requestOf<RoutedDeployment>({ accepts: (deployment) => deployment === d0 });
    const probe = slotOf(room.tryAcquire(onD0));
    expect(d0.ejection.rank).toBe(rank.ejected);
    probe.release();
    expect(d0.ejection.rank).toBe(rank.good);
    const second = slotOf(room.tryAcquire(onD0));
    second.succeeded(20);
    second.release();
    expect(d0.ejection.state.state).toBe("ready");
  });
});
