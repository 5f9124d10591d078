import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import { answered, Dispatching } from "./dispatch-fixture.js";

let dispatching: Dispatching;
beforeEach(() => {
  dispatching = new Dispatching();
});
afterEach(() => dispatching.close());

describe("an unavailable store", () => {
  /** A queue and endpoints that fail while a switch is set. */
  function interrupted() {
    const { state } = dispatching;
    const away = { claim: false, finish: false, find: false };
    const unless = <T>(isAway: boolean, ask: () => Promise<T>): Promise<T> =>
      isAway ? Promise.reject(new ServiceError("storage_unavailable", "away")) : ask();
    const { deliveries: queue, endpoints } = state;
    const deps: Parameters<Dispatching["start"]>[0] = {
      queue: {
        claim: (options) => unless(away.claim, () => queue.claim(options)),
        fanOut: (max) => unless(away.claim, () => queue.fanOut(max)),
        finish: (request) => unless(away.finish, () => queue.finish(request)),
        handBack: (claims) => unless(away.finish, () => queue.handBack(claims)),
        onDue: (listener) => queue.onDue(listener),
      },
      endpoints: {
        find: (account, id) => unless(away.find, () => endpoints.find(account, id)),
        replace: (endpoint) => unless(away.find, () => endpoints.replace(endpoint)),
      },
    };
    const all = (isAway: boolean): void => void Object.assign(away, { claim: isAway, finish: isAway, find: isAway });
    return { away, all, deps };
  }

  it("pauses deliveries during an outage of any length and resumes within 5 s of the recovery (WH-35)", async () => {
    const { receivers, clock, log } = dispatching;
    const { all, deps } = interrupted();
    await dispatching.insert("we_a");
    dispatching.start(deps);
    await dispatching.now();
    all(true);
    const ids = await dispatching.emitMany("we_a", 20);
    await dispatching.pass(3_600_000, 60_000);
    await dispatching.pass(2_000, 100);
    expect(receivers.got).toEqual([]);
    expect(log.lines.map(({ level }) => level)).toEqual(["error"]);
    all(false);
    const backAtMs = clock.now();
    await dispatching.pass(5_000, 50);
    expect(receivers.got).toHaveLength(20);
    expect(Math.max(...receivers.got.map(({ atMs }) => atMs)) - backAtMs).toBeLessThanOrEqual(1_100);
    for (const id of ids) expect((await dispatching.find(id)).state).toBe("delivered");
    expect(log.lines.map(({ level }) => level)).toEqual(["error", "info"]);
  });

  it("a result that could not be recorded is recorded later, and the delay of the retry starts at the failure (WH-35)", async () => {
    const { receivers, clock, ends } = dispatching;
    const { away, deps } = interrupted();
    await dispatching.insert("we_a");
    receivers.answer = () => answered(500);
    await dispatching.startIdle(deps);
    away.finish = true;
    const endedAtMs = clock.now();
    const id = await dispatching.emit("we_a");
    await dispatching.now();
    await dispatching.pass(8_000, 50);
    expect((await dispatching.find(id)).state).toBe("delivery_attempted");
    away.finish = false;
    await dispatching.pass(1_100, 50);
    expect(await dispatching.find(id)).toMatchObject({
      state: "awaiting_retry",
      attemptsMade: 1,
      nextAttemptAtMs: endedAtMs + 30_000,
    });
    expect(ends).toMatchObject([{ effect: "awaiting_retry", answer: "5xx" }]);
    expect(receivers.got).toHaveLength(1);
  });

  it("a result that cannot be recorded within the lease is dropped and logged, and the delivery repeats (WH-32, WH-35)", async () => {
    const { receivers, ends, log } = dispatching;
    const { away, deps } = interrupted();
    await dispatching.insert("we_a");
    await dispatching.startIdle(deps);
    away.finish = true;
    const id = await dispatching.emit("we_a");
    await dispatching.now();
    await dispatching.pass(15_000, 100);
    expect(ends.map(({ effect }) => effect)).toEqual(["unrecorded"]);
    expect(log.lines.at(-1)).toMatchObject({ level: "warn", fields: { delivery: id, endpoint: "we_a" } });
    away.finish = false;
    await dispatching.pass(2_000, 100);
    expect(receivers.got.map(({ headers }) => headers["service-attempt"])).toEqual(["1", "1"]);
    expect(new Set(receivers.got.map(({ body }) => body)).size).toBe(1);
    expect(await dispatching.find(id)).toMatchObject({ state: "delivered", attemptsMade: 1 });
  });

  it.for([
    {
      what: "is stored if no other process has claimed the delivery",
      isTakenOver: false,
      effects: ["delivered"],
      attempt: 200,
    },
    {
      what: "is dropped if another process has claimed it",
      isTakenOver: true,
      effects: ["awaiting_retry", "lease_lost"],
      attempt: 500,
    },
  ])(
    "the result of an attempt that outlasted its lease is reported again for a short time, and $what (WH-33, WH-35)",
    async ({ isTakenOver, effects, attempt }) => {
      const { receivers, ends } = dispatching;
      const { away, deps } = interrupted();
      await dispatching.insert("we_a");
      // The worker is suspended for 20 s, including the timer of the attempt's timeout.
      receivers.answer = () => (receivers.got.length === 1 ? receivers.after(20_000, answered(200)) : answered(500));
      await dispatching.startIdle(deps);
      const id = await dispatching.emit("we_a");
      await dispatching.now();
      away.claim = !isTakenOver;
      await dispatching.pass(19_900, 100);
      away.finish = true;
      await dispatching.pass(400, 100);
      away.finish = false;
      await dispatching.pass(1_000, 100);
      expect(ends.map(({ effect }) => effect)).toEqual(effects);
      expect(await dispatching.find(id)).toMatchObject({ attemptsMade: 1, attempts: [{ status: attempt }] });
    },
  );

  it("a claim whose endpoint cannot be read is attempted as soon as the endpoint can be read (WH-35)", async () => {
    const { receivers } = dispatching;
    const { away, deps } = interrupted();
    await dispatching.insert("we_a");
    await dispatching.startIdle(deps);
    away.find = true;
    const id = await dispatching.emit("we_a");
    await dispatching.now();
    await dispatching.pass(4_000, 100);
    expect(receivers.got).toEqual([]);
    away.find = false;
    await dispatching.pass(1_100, 100);
    expect(await dispatching.find(id)).toMatchObject({ state: "delivered", attemptsMade: 1 });
  });
});
