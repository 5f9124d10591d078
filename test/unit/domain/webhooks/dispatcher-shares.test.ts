import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { answered, Dispatching, unanswered } from "./dispatch-fixture.js";

let dispatching: Dispatching;
beforeEach(() => {
  dispatching = new Dispatching();
});
afterEach(() => dispatching.close());

describe("accounts whose endpoints hang", () => {
  it.for([
    { accounts: 1, endpoints: 20 },
    { accounts: 6, endpoints: 20 },
  ])(
    "$accounts accounts with $endpoints endpoints each delay the deliveries of another account by less than a second (E-12, REL-14)",
    async ({ accounts, endpoints }) => {
      const { receivers } = dispatching;
      for (let account = 0; account < accounts; account++) {
        for (let i = 0; i < endpoints; i++) {
          await dispatching.insert(`we_hangs_${account}_${i}`, { account: `hostile_${account}`, maxInFlight: 64 });
        }
      }
      await dispatching.insert("we_good", { account: "polite" });
      receivers.answer = ({ url, budgetMs }) =>
        url.includes("hangs") ? receivers.after(budgetMs, unanswered("timeout")) : receivers.after(20, answered(200));
      dispatching.start();
      const hostile = async (): Promise<void> => {
        for (let account = 0; account < accounts; account++) await dispatching.emit("", `hostile_${account}`);
      };
      const late: number[] = [];
      const good = () => receivers.got.filter(({ url }) => url.includes("good"));
      for (let second = 0; second < 14; second++) {
        for (let i = 0; i < 4; i++) await hostile();
        await dispatching.emit("we_good", "polite");
        await dispatching.pass(1_000, 50);
        // The first attempts to each endpoint show that it hangs.
        if (second >= 6) late.push(good().length);
      }
      expect(late).toEqual(late.map((_, i) => i + 7));
      expect(receivers.openMax).toBeLessThanOrEqual(64);
    },
  );

  it("one account alone holds three quarters of the slots, and the next account gets slots immediately (E-12)", async () => {
    const { receivers } = dispatching;
    for (let i = 0; i < 12; i++) await dispatching.insert(`we_${i}`);
    await dispatching.insert("we_next", { account: "b" });
    await dispatching.startIdle();
    await dispatching.emit("we_0");
    await dispatching.soon();
    expect(receivers.got).toHaveLength(12);
    receivers.answer = () => receivers.after(5_000, unanswered("timeout"));
    await dispatching.emitMany("we_0", 10);
    await dispatching.soon();
    expect(receivers.open).toBe(48);
    await dispatching.emit("we_next", "b");
    await dispatching.soon();
    expect(receivers.got.filter(({ url }) => url.includes("next"))).toHaveLength(1);
  });

  it("endpoints without an answer so far hold at most half of an account's slots, which leaves slots for others (E-12)", async () => {
    const { receivers } = dispatching;
    for (let i = 0; i < 12; i++) await dispatching.insert(`we_${i}`);
    receivers.answer = () => receivers.after(5_000, unanswered("timeout"));
    await dispatching.emitMany("we_0", 10);
    dispatching.start();
    await dispatching.now();
    expect(receivers.open).toBe(24);
  });
});

describe("claims ahead", () => {
  it("an endpoint that answers quickly gets its next attempt as soon as one ends, at most eight at a time (E-30, WH-37)", async () => {
    const { receivers, state, clock } = dispatching;
    await dispatching.insert("we_a");
    const ids = await dispatching.emitMany("we_a", 60);
    receivers.answer = () => receivers.after(10, answered(200));
    let recorded: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      recorded = resolve;
    });
    const queue = state.deliveries;
    const dispatcher = dispatching.start({
      queue: {
        claim: (options) => queue.claim(options),
        fanOut: (max) => queue.fanOut(max),
        handBack: (claims) => queue.handBack(claims),
        onDue: (listener) => queue.onDue(listener),
        async finish(request) {
          // The store takes 30 ms for a result, and from the third round of attempts on it records nothing for a while.
          if (receivers.got.length > 16) await gate;
          else await new Promise<void>((resolve) => clock.after(30, resolve));
          return queue.finish(request);
        },
      },
    });
    await dispatching.pass(200, 5);
    expect(receivers.openMax).toBe(8);
    expect(receivers.got.length).toBeGreaterThan(24);
    expect(dispatcher.inFlight).toBeGreaterThan(8);
    recorded();
    await dispatching.pass(500, 5);
    expect(receivers.got.map(({ headers }) => headers["service-delivery-id"])).toEqual(ids);
    expect(receivers.openMax).toBe(8);
  });

  it("claims are released when the endpoint starts to hang, and when the process stops (WH-36)", async () => {
    const { receivers, state } = dispatching;
    await dispatching.insert("we_a");
    const ids = await dispatching.emitMany("we_a", 60);
    let hangs = false;
    receivers.answer = () =>
      hangs ? receivers.after(5_000, unanswered("timeout")) : receivers.after(10, answered(200));
    const dispatcher = dispatching.start();
    await dispatching.pass(20, 5);
    hangs = true;
    await dispatching.pass(100, 5);
    expect(receivers.open).toBe(8);
    const closing = dispatcher.close();
    await dispatching.pass(6_000, 500);
    await closing;
    const states = await Promise.all(ids.map(async (id) => (await dispatching.find(id)).state));
    expect(states).not.toContain("delivery_attempted");
    expect(await state.deliveries.due()).toBeGreaterThan(0);
  });
});
