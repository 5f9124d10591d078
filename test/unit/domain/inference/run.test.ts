import { describe, expect, it } from "vitest";
import { Call } from "../../../../src/domain/call/call.js";
import { Run, type RunDeps } from "../../../../src/domain/inference/run.js";
import type { Settled, Settlement } from "../../../../src/domain/metering/ledger.js";
import { blindObserver, createCoreHarness } from "../../../support/core-harness.js";
import { HandEngine } from "../../../support/hand-engine.js";

const settled: Settled = { duplicate: false, crossed: [] };

/** Creates one run and records the calls of its ledger. */
async function run(settle: () => Settled | Promise<Settled>) {
  const harness = await createCoreHarness({ engines: [new HandEngine()] });
  const { ctx } = await harness.open();
  const [model] = harness.catalog.all();
  if (!(ctx instanceof Call) || model === undefined) throw new Error("the harness has a call and a model");
  const told: Settlement[] = [];
  let lost = 0;
  const deps: RunDeps = {
    clock: harness.clock,
    ledger: {
      answerBegins() {},
      settle(settlement) {
        told.push(settlement);
        return settle();
      },
    },
    // The content of a settlement is tested elsewhere; here only the number of writes counts.
    accounting: { settlementOf: () => ({}) as Settlement },
    observer: { ...blindObserver, usageLost: () => (lost += 1) },
  };
  return { run: new Run(deps, ctx, model, { admitted: true, degraded: false }), call: ctx, told, lost: () => lost };
}

describe("the end of a run", () => {
  it("is settled once, however often it is called", async () => {
    const { run: one, call, told } = await run(() => settled);
    await one.end("completed");
    await one.end("failed");
    expect(told).toHaveLength(1);
    expect(call.usedSoFar).toBeNull();
  });

  it("waits for a slow ledger, also if it is called a second time", async () => {
    let done = (_: Settled): void => {};
    const writing = new Promise<Settled>((resolve) => {
      done = resolve;
    });
    const { run: one, told } = await run(() => writing);
    const first = one.end("completed");
    expect(one.end("completed")).toBe(first);
    done(settled);
    await first;
    expect(told).toHaveLength(1);
  });

  it.each([
    ["rejects", () => Promise.reject(new Error("disk full"))],
    [
      "throws",
      () => {
        throw new Error("disk full");
      },
    ],
  ] as const)("reports lost usage and rejects when the ledger %s", async (_how, settle) => {
    const { run: one, lost } = await run(settle);
    await expect(one.end("completed")).rejects.toThrow("disk full");
    expect(lost()).toBe(1);
  });
});
