import { describe, expect, it } from "vitest";
import type { CallFigures } from "../../../../src/domain/call/observer.js";
import { CatalogModel } from "../../../../src/domain/catalog/catalog-model.js";
import { EngineError } from "../../../../src/domain/engine/engine.js";
import { ServiceStatus, type ServiceStatusDeps } from "../../../../src/domain/service/service-status.js";

const calls: CallFigures = {
  counts: () => ({
    requests: 7,
    failed: 1,
    rejected: 2,
    clientLeft: 3,
    promptTokens: 40,
    completionTokens: 50,
  }),
  durations: () => ({ since: () => [{ name: "request", count: 4, p50Ms: 1, p95Ms: 2, p99Ms: 3 }] }),
};

const deployment = (state: { loaded?: { producedTokens: number; restarts: number }; failure?: EngineError }) => ({
  slots: 2,
  model: state.loaded === undefined ? null : { stats: () => ({ slotsBusy: 1, ...state.loaded }) },
  failure: state.failure ?? null,
});

/** The parts of a model that the status reads. */
function modelOf(
  id: string,
  deployments: readonly ReturnType<typeof deployment>[],
  replacedReason: string | null = null,
): CatalogModel {
  const room = { busy: 2, waiting: 6 };
  return Object.assign(Object.create(CatalogModel.prototype), { id, deployments, room, replacedReason });
}

function statusOf(changes: Partial<ServiceStatusDeps> = {}): ServiceStatus {
  let nowMs = 1_000;
  return new ServiceStatus({
    clock: {
      now: () => {
        nowMs += 500;
        return nowMs;
      },
    },
    state: {
      kind: "redis",
      health: async () => ({
        ok: true,
        latencyMs: 1.5,
        durability: "one-second",
        writeFault: null,
        clock: { jumps: 0, aheadMs: 0 },
        warnings: ["of the store"],
      }),
      replicas: () => 2,
      deliveries: { due: async () => 9 },
    },
    catalog: { all: () => [] },
    calls,
    chargedNano: () => 60,
    spooled: () => ({ size: 4 }),
    endpointsFailing: () => 1,
    warnings: ["of the settings"],
    ...changes,
  });
}

describe("the status of the service", () => {
  it("reports counters, stored records, due deliveries and warnings", async () => {
    expect(await statusOf().read()).toMatchObject({
      startedAt: { seconds: 1n, nanos: 500_000_000 },
      now: { seconds: 2n },
      state: {
        kind: "redis",
        ok: true,
        latencyMs: 1.5,
        durability: "one-second",
        replicas: 2,
        spooled: 4n,
      },
      counters: {
        requests: 7n,
        failed: 1n,
        rejected: 2n,
        clientLeft: 3n,
        promptTokens: 40n,
        completionTokens: 50n,
        costNanoDollars: 60n,
      },
      latencies: [{ name: "request", count: 4n, p50Ms: 1, p95Ms: 2, p99Ms: 3 }],
      deliveriesDue: 9n,
      endpointsFailing: 1,
      warnings: ["of the store", "of the settings"],
    });
  });

  it("reports its addresses once they are known", async () => {
    const status = statusOf();
    expect((await status.read()).listeners).toBeUndefined();
    const listening = { host: "0.0.0.0", httpPort: 8080, grpcPort: 50_051, tls: true };
    status.listensOn(listening);
    expect((await status.read()).listeners).toMatchObject(listening);
  });

  it("a model is ready if a deployment is loaded, else loading while one may load, and failed if none can load", async () => {
    const failure = new EngineError("internal", "the file is damaged");
    const models = [
      modelOf("ready", [deployment({ loaded: { producedTokens: 10, restarts: 2 } }), deployment({ failure })]),
      modelOf("loading", [deployment({})]),
      modelOf("failed", [deployment({ failure })]),
    ];
    const { models: told } = await statusOf({ catalog: { all: () => models } }).read();
    expect(told).toMatchObject([
      { id: "ready", state: "ready", slots: 4, running: 2, waiting: 6, producedTokens: 10n, restarts: 2 },
      { id: "loading", state: "loading", slots: 2, problem: "" },
      { id: "failed", state: "failed", problem: "the file is damaged" },
    ]);
  });

  it("a default model that another one replaces is shown as unloaded with the reason, not as failed", async () => {
    const failure = new EngineError("model_not_loaded", "the hub cannot be reached");
    const models = [modelOf("large", [deployment({ failure })], "It cannot be downloaded, so small is used instead")];
    const { models: listed } = await statusOf({ catalog: { all: () => models } }).read();
    expect(listed).toMatchObject([
      { id: "large", state: "unloaded", problem: "It cannot be downloaded, so small is used instead" },
    ]);
  });

  it("an unavailable store is reported and leaves the rest of the status intact", async () => {
    const status = statusOf({
      state: {
        kind: "redis",
        health: async () => ({
          ok: false,
          latencyMs: 0,
          durability: "one-second",
          writeFault: null,
          clock: { jumps: 0, aheadMs: 0 },
          warnings: ["it does not answer"],
        }),
        replicas: () => 1,
        deliveries: { due: () => Promise.reject(new Error("away")) },
      },
    });
    expect(await status.read()).toMatchObject({
      state: { ok: false },
      deliveriesDue: 0n,
      counters: { requests: 7n },
      warnings: ["it does not answer", "of the settings"],
    });
  });
});
