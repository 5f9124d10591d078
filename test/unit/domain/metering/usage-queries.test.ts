import { describe, expect, it } from "vitest";
import { Ended } from "../../../../src/domain/call/call-context.js";
import { createFairShares } from "../../../../src/domain/call/fair-shares.js";
import type { LimitScope } from "../../../../src/domain/call/rate-limits.js";
import { UsageQueries } from "../../../../src/domain/metering/usage-queries.js";
import type { UsageGroups, UsageReader } from "../../../../src/domain/metering/usage-store.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { FakeClock } from "../../../support/fake-clock.js";

const unlimited = { requestsPerMinute: null, tokensPerMinute: null, concurrency: null };
const principal = {
  kind: "api_key",
  keyId: "key_1",
  account: "a",
  scope: "read",
  models: [],
  limits: unlimited,
} as const;
const question = { account: "", startMs: null, endMs: null, width: "day", groupBy: [], limit: 1, page: "" } as const;
const empty: UsageGroups = { groups: [], next: null };

function setUp(limits: Partial<LimitScope["limits"]>, groups: UsageReader["groups"] = async () => empty) {
  const clock = new FakeClock();
  const { ledger } = openMemoryState({ clock });
  const owner = { kind: "key", id: "key_1" } as const;
  const whole = { ...unlimited, ...limits };
  const limitBook = { scopesOf: () => [{ owner, limits: whole }] };
  const shares = createFairShares();
  const questions = new UsageQueries({ usage: { groups }, ledger, limitBook, shares, clock, now: () => clock.now() });
  let number = 0;
  const caller = (signal = new AbortController().signal, account = "a") => ({
    principal: { ...principal, account },
    requestId: `req_${number++}`,
    address: "127.0.0.1",
    signal,
  });
  return { clock, questions, caller };
}

describe("UsageQueries", () => {
  it("a read counts as a request of its key, and beyond the limit it is rejected with 429 and a wait (E-10)", async () => {
    const { clock, questions, caller } = setUp({ requestsPerMinute: 2 });
    const asked = await Promise.allSettled([1, 2, 3, 4].map(() => questions.query(caller(), question)));
    expect(asked.map(({ status }) => status).sort()).toEqual(["fulfilled", "fulfilled", "rejected", "rejected"]);
    await expect(questions.query(caller(), question)).rejects.toMatchObject({ code: "rate_limit_exceeded" });
    clock.advance(65_000);
    await questions.query(caller(), question);
  });

  it("a read, and also a watch, counts as one concurrent request of its key until it ends (E-10)", async () => {
    let answer: (page: UsageGroups) => void = () => {};
    const slow = (): Promise<UsageGroups> =>
      new Promise((resolve) => {
        answer = resolve;
      });
    const { questions, caller } = setUp({ concurrency: 1 }, slow);
    const first = questions.query(caller(), question);
    await new Promise((resolve) => setImmediate(resolve));
    await expect(questions.query(caller(), question)).rejects.toMatchObject({ code: "rate_limit_exceeded" });
    answer(empty);
    await first;

    const watching = questions.watch(caller(), { account: "", groupBy: [] });
    const update = watching.next();
    await new Promise((resolve) => setImmediate(resolve));
    await expect(questions.query(caller(), question)).rejects.toMatchObject({ code: "rate_limit_exceeded" });
    answer(empty);
    await update;
    await watching.return(undefined);
    const last = questions.query(caller(), question);
    await new Promise((resolve) => setImmediate(resolve));
    answer(empty);
    await last;
  });

  it("a read waits while two reads of its account run, and the reads of another account do not (E-10)", async () => {
    const reads: { readonly account: string; answer(page: UsageGroups): void }[] = [];
    const { questions, caller } = setUp(
      {},
      ({ account }) => new Promise((answer) => void reads.push({ account, answer })),
    );
    const asked = Array.from({ length: 20 }, () => questions.query(caller(), question));
    await new Promise((resolve) => setImmediate(resolve));
    expect(reads).toHaveLength(2);
    asked.push(questions.query(caller(undefined, "b"), question));
    await new Promise((resolve) => setImmediate(resolve));
    expect(reads.map(({ account }) => account)).toEqual(["a", "a", "b"]);
    for (let answered = 0; answered < asked.length; answered += 1) {
      reads[answered]?.answer(empty);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await Promise.all(asked)).toHaveLength(21);
  });

  it("a read stops reading the store when its client disconnects (E-10)", async () => {
    const hangUp = new AbortController();
    let steps = 0;
    const { questions, caller } = setUp({}, async (_, signal) => {
      for (;;) {
        steps += 1;
        await new Promise((resolve) => setImmediate(resolve));
        signal.throwIfAborted();
      }
    });
    const asked = questions.query(caller(hangUp.signal), question);
    await new Promise((resolve) => setImmediate(resolve));
    hangUp.abort(new Ended("client_left"));
    await expect(asked).rejects.toThrow();
    const stepsThen = steps;
    await new Promise((resolve) => setImmediate(resolve));
    expect(steps).toBe(stepsThen);
  });
});
