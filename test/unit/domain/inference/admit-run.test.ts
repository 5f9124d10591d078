import { describe, expect, it } from "vitest";
import { Call } from "../../../../src/domain/call/call.js";
import type { RateLimits } from "../../../../src/domain/call/rate-limits.js";
import { ServiceError } from "../../../../src/domain/call/service-error.js";
import type { Reservation } from "../../../../src/domain/inference/reservation.js";
import { type AdmissionDeps, admitRun } from "../../../../src/domain/inference/run.js";
import type { Admission, AdmitRequest, Budget } from "../../../../src/domain/metering/ledger.js";
import { blindObserver, createCoreHarness } from "../../../support/core-harness.js";
import { HandEngine } from "../../../support/hand-engine.js";
import { limitsOf } from "../metering/limits-fixture.js";

const counted: Reservation = { promptTokens: 10, outputTokens: 90, isCounted: true };
const costBudget: Budget = {
  id: "thr_1",
  metric: "cost",
  period: "day",
  limit: 5_000n,
  scope: { kind: "account", id: "default" },
};

interface Given {
  readonly limits?: Partial<RateLimits>;
  readonly budgets?: readonly Budget[];
  readonly answer?: Admission;
  readonly reservation?: Reservation;
  /** Disconnects the client while the prompt is counted. */
  readonly leaves?: boolean;
}

/**
 * Prepares one request of the model `m`, and records how often its prompt is counted and the calls of the ledger and of the
 * rejection cache.
 */
async function open(given: Given = {}) {
  const harness = await createCoreHarness({ engines: [new HandEngine()] });
  const { ctx, end } = await harness.open();
  const [model] = harness.catalog.all();
  if (!(ctx instanceof Call) || model === undefined) throw new Error("the harness has a call and a model");
  const asked: AdmitRequest[] = [];
  const refusals: Admission[] = [];
  let counts = 0;
  const limits = given.limits === undefined ? null : limitsOf(given.limits);
  const deps: AdmissionDeps = {
    clock: harness.clock,
    ledger: {
      admit(request) {
        asked.push(request);
        return given.answer ?? { admitted: true, degraded: false };
      },
      answerBegins() {},
      settle: () => ({ duplicate: false, crossed: [] }),
    },
    accounting: {
      budgetsOf: () => given.budgets ?? [],
      costOf: (_model, promptTokens, outputTokens) => promptTokens * 2 + outputTokens * 3,
      settlementOf() {
        throw new Error("nothing is settled here");
      },
    },
    limitBook: { scopesOf: () => (limits === null ? [] : [{ owner: { kind: "account", id: "default" }, limits }]) },
    rejections: { note: (refused) => refusals.push(refused) },
    observer: blindObserver,
  };
  const admit = () =>
    admitRun(deps, ctx, model, async () => {
      counts += 1;
      if (given.leaves) end("client_left");
      return given.reservation ?? counted;
    });
  return { admit, asked, refusals, counts: () => counts, requestId: ctx.requestId };
}

describe("admission", () => {
  it.each([
    ["nothing is limited", {}],
    ["requests are limited", { limits: { requestsPerMinute: 1, concurrency: 1 } }],
    ["there is a budget of requests", { budgets: [{ ...costBudget, metric: "requests" }] }],
  ] satisfies [string, Given][])("counts no prompt when %s", async (_what, given) => {
    const { admit, asked, counts } = await open(given);
    await admit();
    expect(counts()).toBe(0);
    expect(asked).toMatchObject([{ reserve: { tokens: 0, costNano: 0 }, promptTokens: 0 }]);
  });

  it.each([
    ["tokens are limited", { limits: { tokensPerMinute: 1_000 } }],
    ["there is a budget of cost", { budgets: [costBudget] }],
  ] satisfies [string, Given][])(
    "reserves the maximum usage of the request when %s (state RL-2, state RL-5)",
    async (_what, given) => {
      const { admit, asked, requestId } = await open(given);
      await admit();
      expect(asked).toHaveLength(1);
      expect(asked[0]).toMatchObject({
        requestId,
        account: "default",
        keyId: null,
        model: "m",
        operation: "create_chat_completion",
        reserve: { tokens: 100, costNano: 10 * 2 + 90 * 3 },
        promptTokens: 10,
        leaseMs: 60_000,
      });
    },
  );

  it("passes no prompt tokens to the ledger when they are an estimate", async () => {
    const reservation = { ...counted, isCounted: false };
    const { admit, asked } = await open({ limits: { tokensPerMinute: 1_000 }, reservation });
    await admit();
    expect(asked[0]).toMatchObject({ reserve: { tokens: 100 }, promptTokens: 0 });
  });

  it("stores a rejection in the rejection cache and reports the caller's limits", async () => {
    const owner = { kind: "account", id: "default" } as const;
    const answer: Admission = {
      admitted: false,
      refusal: { which: "requests", owner, limit: 1, used: 1, requested: 1, retryAfterMs: 5_000 },
      snapshot: { requests: { owner, limit: 1, remaining: 0, resetMs: 6_000 } },
      degraded: true,
    };
    const { admit, refusals } = await open({ limits: { requestsPerMinute: 1 }, answer });
    let error: unknown;
    try {
      await admit();
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(ServiceError);
    expect(error).toMatchObject({ code: "rate_limit_exceeded", limits: answer.snapshot, degraded: true });
    expect(refusals).toEqual([answer]);
  });

  it("does not call the ledger if the client disconnected while the prompt was counted", async () => {
    const { admit, asked } = await open({ limits: { tokensPerMinute: 1_000 }, leaves: true });
    await expect(admit()).rejects.toMatchObject({ code: "client_closed_request" });
    expect(asked).toEqual([]);
  });
});
