import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { Deployment } from "../../../../src/domain/catalog/deployment.js";
import { type Engine, EngineError, type LoadedModel } from "../../../../src/domain/engine/engine.js";
import { EjectionGroup } from "../../../../src/domain/routing/ejection-group.js";
import { caps } from "../../../support/capabilities.js";
import { deploymentOn } from "../../../support/deployments.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";

const keepAliveMs = 60_000;
const never = new AbortController().signal;

/** A deployment that is unloaded after a minute without requests; its loads end immediately. */
async function setUp() {
  const clock = new FakeClock();
  const events: string[] = [];
  const failing = { next: false };
  const used = { slots: 0 };
  const engine: Engine = {
    async load() {
      events.push("load");
      if (failing.next) throw new EngineError("model_not_loaded", "no such file");
      return { id: "m", caps: caps(), unload: async () => void events.push("unload") } as unknown as LoadedModel;
    },
  };
  const deployment = new Deployment(
    {
      ...{ clock, backgroundClock: clock, log: silentLog, limits: { queueWaitMs: 30_000 }, random: () => 0.5 },
      ...{ healthChecks: { begin: () => {}, end: () => {} }, drained: new Set<string>() },
    },
    deploymentOn(engine, { keepAliveMs }),
    { modelId: "m", position: 0, group: new EjectionGroup(clock), granted: () => used.slots, onChange: () => {} },
  );
  await deployment.loadEnded;
  const pass = async (ms: number): Promise<void> => {
    clock.advance(ms);
    await setImmediate();
  };
  return { clock, deployment, events, failing, used, pass };
}

describe("a model with keep_alive", () => {
  it("is unloaded after that time without requests, and its capabilities stay known (MODEL-11)", async () => {
    const { deployment, events, pass, clock } = await setUp();
    await pass(keepAliveMs - 1);
    expect(events).toEqual(["load"]);
    await pass(1);
    expect(deployment.isUsable).toBe(false);
    expect(deployment.isUnloadedWhileIdle).toBe(true);
    expect(deployment.caps).toEqual(caps());
    expect(deployment.state).toMatchObject({
      state: "ready",
      reason: expect.stringContaining("the next request loads it"),
    });
    await pass(1_000);
    expect(events).toEqual(["load", "unload"]);
    expect(clock.pending).toBe(0);
  });

  it("stays loaded while requests run, and for the whole time after the last one (MODEL-11)", async () => {
    const { deployment, events, used, pass } = await setUp();
    await pass(keepAliveMs / 2);
    deployment.outstandingRequests += 1;
    for (let quarter = 0; quarter < 12; quarter++) await pass(keepAliveMs / 4);
    expect(deployment.isUsable).toBe(true);
    deployment.outstandingRequests -= 1;
    await pass(keepAliveMs / 2);
    // A request that begins and ends between two checks.
    used.slots += 1;
    for (let quarter = 0; quarter < 4; quarter++) await pass(keepAliveMs / 4);
    expect(deployment.isUsable).toBe(true);
    await pass(keepAliveMs / 4);
    await pass(1_000);
    expect(events).toEqual(["load", "unload"]);
  });

  it("is loaded once for all following requests, after an unload in progress has ended (MODEL-11)", async () => {
    const { deployment, events, pass, clock } = await setUp();
    await pass(keepAliveMs);
    const waiting = [deployment.onceLoaded(never), deployment.onceLoaded(never)];
    expect(deployment.state).toMatchObject({ state: "loading" });
    expect(events).toEqual(["load"]);
    await pass(1_000);
    expect((await Promise.all(waiting)).map(({ id }) => id)).toEqual(["m", "m"]);
    expect(events).toEqual(["load", "unload", "load"]);
    expect(deployment.isUsable).toBe(true);
    await deployment.retire();
    expect(events.at(-1)).toBe("unload");
    expect(clock.pending).toBe(0);
  });

  it("that cannot be loaded again is tried again by a request after 10 s (ERR-24)", async () => {
    const { deployment, events, failing, pass } = await setUp();
    await pass(keepAliveMs);
    await pass(1_000);
    failing.next = true;
    const again = { code: "model_not_loaded", shouldRetry: null, retryAfterMs: 10_000 };
    await expect(deployment.onceLoaded(never)).rejects.toMatchObject(again);
    await expect(deployment.onceLoaded(never)).rejects.toMatchObject({ code: "model_not_loaded" });
    expect(events).toEqual(["load", "unload", "load"]);
    failing.next = false;
    await pass(10_000);
    expect((await deployment.onceLoaded(never)).id).toBe("m");
  });

  it("is not loaded by a request once it is removed", async () => {
    const { deployment, events, pass } = await setUp();
    await pass(keepAliveMs);
    const retired = deployment.retire();
    await pass(1_000);
    await retired;
    expect(events).toEqual(["load", "unload"]);
  });
});
