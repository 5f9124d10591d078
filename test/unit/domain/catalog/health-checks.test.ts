import { describe, expect, it } from "vitest";
import { Catalog } from "../../../../src/domain/catalog/catalog.js";
import type { CatalogModel } from "../../../../src/domain/catalog/catalog-model.js";
import type { Engine, LoadedModel } from "../../../../src/domain/engine/engine.js";
import type { AbortFlag } from "../../../../src/lib/abort-source.js";
import { openMemoryState } from "../../../../src/state/embedded/memory-state.js";
import { caps } from "../../../support/capabilities.js";
import { deploymentOn, noDrains } from "../../../support/deployments.js";
import { FakeClock } from "../../../support/fake-clock.js";
import { silentLog } from "../../../support/silent-log.js";
import { requestOf } from "../routing/routing-fixture.js";

/**
 * Behavior of a server: `down` and `hangs` fail requests and checks, and checks of `hangs` get no answer; `failing` fails
 * requests only.
 */
type ServerState = "up" | "down" | "hangs" | "failing";

const stepMs = 250;

/** A model on two servers. The first one can fail; each step is a request of a client. */
async function setUp() {
  const clock = new FakeClock(0);
  const backgroundClock = new FakeClock(0);
  const first = { state: "up" as ServerState, checks: 0, requests: 0, answered: 0 };
  const isReachable = (signal: AbortFlag): Promise<boolean> => {
    first.checks += 1;
    if (first.state !== "hangs") return Promise.resolve(first.state !== "down");
    return new Promise((resolve) => signal.addEventListener("abort", () => resolve(false)));
  };
  const engine: Engine = {
    load: async ({ id, deployment }) =>
      ({
        id,
        caps: caps(),
        unload: async () => {},
        isReachable: deployment === "m/0" ? isReachable : async () => true,
      }) as unknown as LoadedModel,
  };
  const catalog = new Catalog({
    clock,
    backgroundClock,
    log: silentLog,
    store: openMemoryState().catalog,
    limits: { queueWaitMs: 1_000 },
    random: () => 0.5,
    drained: noDrains,
  });
  const model = await catalog.put({
    id: "m",
    ownedBy: "test",
    capabilities: ["chat"],
    prices: [],
    defaults: null,
    fallbacks: [],
    affinity: "none",
    deployments: [deploymentOn(engine, { upstream: "a" }), deploymentOn(engine, { upstream: "b" })],
  });
  const step = async (): Promise<void> => {
    clock.advance(stepMs);
    backgroundClock.advance(stepMs);
    const slot = model.room.tryAcquire(requestOf());
    if (slot === null) throw new Error("both deployments have free slots");
    if (slot.deployment.id !== "m/0") slot.succeeded(50);
    else {
      first.requests += 1;
      if (first.state === "up") {
        first.answered += 1;
        slot.succeeded(50);
      } else slot.failed("connection refused");
    }
    slot.release();
    await new Promise(setImmediate);
  };
  const steps = async (ms: number): Promise<void> => {
    for (let i = 0; i < ms / stepMs; i++) await step();
  };
  return { clock, backgroundClock, catalog, model, first, step, steps };
}

function stateOfFirst({ deployments }: CatalogModel): string | undefined {
  return deployments[0]?.state.state;
}

const revivalsMs = Array.from({ length: 25 }, (_, i) => 600_000 + i * 1_000);

describe("health checks of ejected deployments", () => {
  it.each(["down", "hangs"] as const)(
    "direct requests to a server again within 15 s after the end of a long outage (%s) (REL-9)",
    async (outage) => {
      for (const outageMs of revivalsMs) {
        const { clock, first, step, steps } = await setUp();
        await steps(5_000);
        first.state = outage;
        await steps(outageMs);
        first.state = "up";
        first.answered = 0;
        const revivedAtMs = clock.now();
        while (first.answered === 0 && clock.now() - revivedAtMs < 60_000) await step();
        expect(clock.now() - revivedAtMs, `after ${outageMs} ms`).toBeLessThanOrEqual(15_000);
        await steps(15_000);
        expect(first.answered).toBeGreaterThan(15);
      }
    },
    60_000,
  );

  it("do not shorten the ejection of a server that is reachable but fails requests (REL-9)", async () => {
    const { first, steps } = await setUp();
    first.state = "failing";
    await steps(300_000);
    // 5 requests that eject it, then probes after 10, 20, 40, 80 and 160 s.
    expect(first.requests).toBeLessThanOrEqual(5 + 5);
    expect(first.checks).toBeGreaterThan(90);
  });

  it("run every 3 s while a deployment is ejected, and need no timer otherwise", async () => {
    const { backgroundClock, model, first, steps } = await setUp();
    await steps(30_000);
    expect([first.checks, backgroundClock.pending]).toEqual([0, 0]);
    first.state = "down";
    while (stateOfFirst(model) !== "ejected") await steps(stepMs);
    await steps(9_000);
    expect([first.checks, backgroundClock.pending]).toEqual([3, 1]);
    first.state = "up";
    await steps(10_000);
    expect(stateOfFirst(model)).toBe("ready");
    expect(backgroundClock.pending).toBe(0);
  });

  it("end when the model is removed, even if its last requests fail", async () => {
    const { backgroundClock, catalog, model, first, steps } = await setUp();
    first.state = "hangs";
    while (stateOfFirst(model) !== "ejected") await steps(stepMs);
    await steps(6_000);
    await catalog.remove("m");
    expect(backgroundClock.pending).toBe(0);
    await steps(60_000);
    expect(backgroundClock.pending).toBe(0);
  });
});
