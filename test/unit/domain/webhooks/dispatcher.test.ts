import { setImmediate as nextTurn } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Dispatcher } from "../../../../src/domain/webhooks/dispatcher.js";
import { answered, Dispatching, settings, unanswered } from "./dispatch-fixture.js";

let dispatching: Dispatching;
beforeEach(() => {
  dispatching = new Dispatching();
});
afterEach(() => dispatching.close());

describe("fairness", () => {
  it("sends at most eight deliveries to an endpoint concurrently (WH-37)", async () => {
    const { receivers } = dispatching;
    await dispatching.insert("we_a");
    receivers.answer = () => receivers.after(1_000, answered(200));
    await dispatching.emitMany("we_a", 20);
    const dispatcher = dispatching.start();
    await dispatching.now();
    expect(receivers.open).toBe(8);
    expect(dispatcher.inFlight).toBe(8);
    await dispatching.pass(3_100, 100);
    expect(receivers.got).toHaveLength(20);
    expect(receivers.openMax).toBe(8);
  });

  it("a process runs at most 64 attempts concurrently (WH-37)", async () => {
    const { receivers } = dispatching;
    for (const account of ["a", "b"]) {
      for (let i = 0; i < 6; i++) await dispatching.insert(`we_${account}_${i}`, { account });
    }
    const dispatcher = await dispatching.startIdle();
    const emitAll = async (count: number): Promise<void> => {
      for (let made = 0; made < count; made++) for (const account of ["a", "b"]) await dispatching.emit("", account);
      await dispatching.soon();
    };
    // Each endpoint has answered once.
    await emitAll(1);
    expect(receivers.got).toHaveLength(12);
    receivers.answer = () => receivers.after(900, answered(200));
    await emitAll(10);
    expect(receivers.open).toBe(64);
    expect(dispatcher.inFlight).toBe(64);
    await dispatching.pass(3_500, 100);
    expect(receivers.got).toHaveLength(132);
    expect(receivers.openMax).toBe(64);
    expect(dispatcher.inFlight).toBe(0);
  });

  it("results that the store is slow to record hold no slots, until 192 wait for it (E-30)", async () => {
    const { receivers, state } = dispatching;
    const { deliveries: queue } = state;
    const accounts = ["a", "b", "c", "d", "e", "f"];
    for (const account of accounts) await dispatching.insert(`we_${account}`, { account, maxInFlight: 64 });
    let record: () => void = () => {};
    const mayRecord = new Promise<void>((resolve) => {
      record = resolve;
    });
    const dispatcher = await dispatching.startIdle({
      queue: {
        claim: (options) => queue.claim(options),
        fanOut: (max) => queue.fanOut(max),
        finish: (request) => mayRecord.then(() => queue.finish(request)),
        handBack: (claims) => queue.handBack(claims),
        onDue: (listener) => queue.onDue(listener),
      },
    });
    for (let made = 0; made < 60; made++) for (const account of accounts) await dispatching.emit("", account);
    await dispatching.pass(100, 5);
    const sent = receivers.got.length;
    expect(sent).toBeGreaterThanOrEqual(192);
    expect(sent).toBeLessThanOrEqual(192 + 64);
    expect(dispatcher.inFlight).toBe(sent);
    record();
    await dispatching.pass(1_000, 5);
    expect(receivers.got).toHaveLength(360);
    expect(dispatcher.inFlight).toBe(0);
  });

  it("a hanging endpoint delays a healthy one by less than a second, at 300 deliveries each (WH-37)", async () => {
    const { receivers, clock } = dispatching;
    for (const id of ["we_hangs", "we_good"]) await dispatching.insert(id);
    receivers.answer = ({ url, budgetMs }) =>
      url.includes("hangs") ? receivers.after(budgetMs, unanswered("timeout")) : receivers.after(5, answered(200));
    await dispatching.emitMany("we_good", 300);
    const startedAtMs = clock.now();
    dispatching.start();
    await dispatching.now();
    await dispatching.pass(1_000, 5);
    const good = receivers.got.filter(({ url }) => url.includes("good"));
    expect(good).toHaveLength(300);
    expect(Math.max(...good.map(({ atMs }) => atMs)) - startedAtMs).toBeLessThan(1_000);
  });

  it("first attempts to an endpoint start in order of creation (WH-31)", async () => {
    const { receivers } = dispatching;
    await dispatching.insert("we_a");
    const ids = await dispatching.emitMany("we_a", 50);
    dispatching.start();
    await dispatching.now();
    expect(receivers.got.map(({ headers }) => headers["service-delivery-id"])).toEqual(ids);
  });

  it("a process that serves requests pauses after starting at most four attempts (WH-52)", async () => {
    const { receivers, clock } = dispatching;
    for (let i = 0; i < 12; i++) await dispatching.insert(`we_${i}`);
    await dispatching.emitMany("we_0", 10);
    let turn = 0;
    const perTurn = new Map<number, number>();
    receivers.answer = () => {
      perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1);
      return answered(200);
    };
    dispatching.start();
    for (; turn < 300; turn++) {
      clock.advance(0);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    expect(receivers.got).toHaveLength(120);
    expect(Math.max(...perTurn.values())).toBe(4);
  });

  it("deliveries pause for at most 20 ms while requests keep the process busy (WH-52)", async () => {
    const { receivers, clock } = dispatching;
    await dispatching.insert("we_a");
    await dispatching.emitMany("we_a", 8);
    receivers.answer = () => new Promise(() => {});
    dispatching.start();
    const turnOf = async (ms: number): Promise<number> => {
      clock.advance(ms);
      await nextTurn();
      return receivers.got.length;
    };
    while ((await turnOf(0)) === 0);
    const duringRequests: number[] = [];
    for (let turn = 0; turn < 5; turn++) duringRequests.push(await turnOf(4));
    expect(duringRequests.slice(0, 4)).toEqual([4, 4, 4, 4]);
    expect(await turnOf(0)).toBe(8);
  });

  it.each([
    { lateMs: 200, promise: "late deliveries pause for one turn of the event loop", sent: [4, 8] },
    { lateMs: 1_001, promise: "deliveries that are more than a second late start together", sent: [8, 8] },
  ])("$promise (E-30)", async ({ lateMs, sent }) => {
    const { receivers, clock } = dispatching;
    await dispatching.insert("we_a");
    await dispatching.emitMany("we_a", 8);
    clock.advance(lateMs);
    receivers.answer = () => new Promise(() => {});
    dispatching.start();
    const sentAfter = async (ms: number): Promise<number> => {
      clock.advance(ms);
      await nextTurn();
      return receivers.got.length;
    };
    while ((await sentAfter(0)) === 0);
    expect([receivers.got.length, await sentAfter(4)]).toEqual(sent);
  });

  it("a freed slot ends the pause after a claim that got nothing because the share of the account was used up (E-30)", async () => {
    const { receivers, clock } = dispatching;
    await dispatching.insert("we_a", { maxInFlight: 64 });
    await dispatching.startIdle({ live: { size: 0 } });
    await dispatching.emit("we_a");
    await dispatching.soon();
    let answerAll: () => void = () => {};
    const mayAnswer = new Promise<void>((resolve) => {
      answerAll = resolve;
    });
    receivers.answer = () => mayAnswer.then(() => answered(200));
    // More than one claim creates deliveries for, so that the next claim follows immediately.
    await dispatching.emitMany("we_a", 150);
    await dispatching.soon();
    expect(receivers.open).toBe(48);
    const atMs = clock.now();
    answerAll();
    await dispatching.now();
    expect(receivers.got).toHaveLength(151);
    expect(clock.now()).toBe(atMs);
  });

  it("deliveries continue immediately when the process is not busy with requests (WH-52)", async () => {
    const { receivers, clock } = dispatching;
    await dispatching.insert("we_a");
    await dispatching.emitMany("we_a", 8);
    receivers.answer = () => new Promise(() => {});
    dispatching.start();
    const startedAtMs = clock.now();
    await dispatching.now();
    expect(receivers.got).toHaveLength(8);
    expect(clock.now()).toBe(startedAtMs);
  });

  it("a process does not pause while there are no requests", async () => {
    const { receivers, clock } = dispatching;
    await dispatching.insert("we_a", { maxInFlight: 64 });
    await dispatching.emitMany("we_a", 24);
    receivers.answer = () => {
      clock.advance(2);
      return new Promise(() => {});
    };
    dispatching.start({ live: { size: 0 } });
    await dispatching.now();
    expect(receivers.got).toHaveLength(24);
  });

  it("several processes share the due deliveries and send each of them once", async () => {
    const { receivers } = dispatching;
    await dispatching.insert("we_a", { maxInFlight: 64 });
    await dispatching.emitMany("we_a", 200);
    const dispatchers = [dispatching.start(), dispatching.start(), dispatching.start()];
    receivers.answer = () => receivers.after(10, answered(200));
    await dispatching.now();
    expect(dispatchers.reduce((sum, { inFlight }) => sum + inFlight, 0)).toBe(64);
    await dispatching.pass(200, 5);
    expect(receivers.got).toHaveLength(200);
    expect(new Set(receivers.got.map(({ headers }) => headers["service-delivery-id"])).size).toBe(200);
  });
});

describe("leases", () => {
  it("a configured lease that is less than 5 s longer than the attempt timeout is rejected (WH-34)", () => {
    expect(settings.leaseMs).toBe(3 * settings.budgetMs);
    expect(() => dispatching.start({ settings: { budgetMs: 10_001 } })).toThrow(RangeError);
    expect(() => dispatching.start({ settings: { leaseMs: 9_999 } })).toThrow(RangeError);
    expect(dispatching.start({ settings: { budgetMs: 10_000 } })).toBeInstanceOf(Dispatcher);
  });

  it("the result of an attempt is dropped if another worker has taken the delivery over (WH-33)", async () => {
    const { receivers, ends } = dispatching;
    await dispatching.insert("we_a");
    // The first worker is suspended for 20 s, including the timer of the attempt's timeout.
    receivers.answer = () =>
      receivers.got.length === 1 ? receivers.after(20_000, answered(500)) : receivers.after(1_000, answered(200));
    await dispatching.startIdle();
    const id = await dispatching.emit("we_a");
    await dispatching.now();
    await dispatching.pass(15_000, 500);
    await dispatching.pass(1_000);
    const delivered = await dispatching.find(id);
    expect(delivered).toMatchObject({ state: "delivered", attemptsMade: 1 });
    await dispatching.pass(10_000, 500);
    expect(await dispatching.find(id)).toEqual(delivered);
    expect(receivers.got).toHaveLength(2);
    expect(ends.map(({ effect }) => effect)).toEqual(["delivered", "lease_lost"]);
  });

  it("nothing is sent if the lease is about to expire", async () => {
    const { receivers, state, clock } = dispatching;
    await dispatching.insert("we_a");
    const id = await dispatching.emit("we_a");
    let stall = true;
    dispatching.start({
      queue: {
        fanOut: (max) => state.deliveries.fanOut(max),
        finish: (request) => state.deliveries.finish(request),
        handBack: (claims) => state.deliveries.handBack(claims),
        onDue: (listener) => state.deliveries.onDue(listener),
        async claim(options) {
          const claimed = await state.deliveries.claim(options);
          // The process is suspended before it starts the attempts that it claimed.
          if (stall && claimed.claims.length > 0) clock.advance(10_001);
          return claimed;
        },
      },
    });
    await dispatching.now();
    expect(receivers.got).toEqual([]);
    stall = false;
    await dispatching.pass(1_000, 100);
    expect(receivers.got).toHaveLength(1);
    expect(await dispatching.find(id)).toMatchObject({ state: "delivered", attemptsMade: 1 });
  });
});

describe("close", () => {
  it("stops claiming, and attempts in progress finish normally (WH-36)", async () => {
    const { receivers } = dispatching;
    await dispatching.insert("we_a");
    receivers.answer = () => receivers.after(4_900, answered(200));
    const ids = await dispatching.emitMany("we_a", 12);
    const dispatcher = dispatching.start();
    await dispatching.now();
    let isClosed = false;
    const closed = dispatcher.close().then(() => {
      isClosed = true;
    });
    await dispatching.pass(4_899, 100);
    expect(isClosed).toBe(false);
    await dispatching.pass(1);
    await closed;
    const states = await Promise.all(ids.map(async (id) => (await dispatching.find(id)).state));
    expect(states).toEqual([...Array(8).fill("delivered"), ...Array(4).fill("pending")]);
    expect(receivers.got).toHaveLength(8);
    expect(dispatcher.inFlight).toBe(0);
  });

  it("releases unfinished deliveries within 6 s, and another process sends them immediately (WH-36)", async () => {
    const { receivers, clock } = dispatching;
    await dispatching.insert("we_a");
    receivers.answer = () => (receivers.got.length === 1 ? new Promise(() => {}) : answered(200));
    const id = await dispatching.emit("we_a");
    const dispatcher = dispatching.start();
    await dispatching.now();
    const atMs = clock.now();
    let closedAtMs = Number.POSITIVE_INFINITY;
    void dispatcher.close().then(() => {
      closedAtMs = clock.now();
    });
    await dispatching.pass(6_000, 50);
    expect(closedAtMs - atMs).toBeLessThan(6_000);
    expect(await dispatching.find(id)).toMatchObject({ state: "pending", attemptsMade: 0 });
    dispatching.start();
    await dispatching.now();
    expect(await dispatching.find(id)).toMatchObject({ state: "delivered", attemptsMade: 1 });
  });

  it("takes at most 6 s while the store does not answer (WH-36)", async () => {
    const { clock, state } = dispatching;
    await dispatching.insert("we_a");
    await dispatching.emit("we_a");
    const never = () => new Promise<never>(() => {});
    const onDue = state.deliveries.onDue.bind(state.deliveries);
    const claim = state.deliveries.claim.bind(state.deliveries);
    const stuck = [
      dispatching.start({ queue: { onDue, claim, fanOut: never, finish: never, handBack: never } }),
      dispatching.start({ queue: { onDue, claim: never, fanOut: never, finish: never, handBack: never } }),
    ];
    await dispatching.now();
    const atMs = clock.now();
    const closedAtMs: number[] = [];
    for (const dispatcher of stuck) void dispatcher.close().then(() => closedAtMs.push(clock.now() - atMs));
    await dispatching.pass(6_000, 50);
    expect(closedAtMs).toHaveLength(2);
    expect(Math.max(...closedAtMs)).toBeLessThan(6_000);
  });

  it("releases claims whose attempts were not started; a second call returns the promise of the first one", async () => {
    const { receivers, state } = dispatching;
    await dispatching.insert("we_a");
    const ids = await dispatching.emitMany("we_a", 3);
    let answer = (): void => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const { deliveries: queue } = state;
    const dispatcher = dispatching.start({
      queue: {
        onDue: (listener) => queue.onDue(listener),
        fanOut: (max) => queue.fanOut(max),
        finish: (request) => queue.finish(request),
        handBack: (claims) => queue.handBack(claims),
        async claim(options) {
          const claimed = await queue.claim(options);
          await asked;
          return claimed;
        },
      },
    });
    await dispatching.now();
    const closing = dispatcher.close();
    expect(dispatcher.close()).toBe(closing);
    answer();
    await dispatching.now();
    await closing;
    expect(receivers.got).toEqual([]);
    for (const id of ids) expect((await dispatching.find(id)).state).toBe("pending");
  });
});
