import { request } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type RunningService, startService } from "../../support/start-service.js";

let service: RunningService;

beforeAll(async () => {
  service = await startService({
    config: {
      models: [
        { id: "slow", engine: "scripted", slots: 1, scripted: { tokens: 100_000, text: "tick", token_delay_ms: 5 } },
        { id: "embed", engine: "scripted", scripted: { dimensions: 4 } },
      ],
    },
  });
});

afterAll(async () => {
  await service.close();
});

/** Starts a stream. The returned function closes its connection. */
function stream(): () => void {
  const headers = { authorization: `Bearer ${service.key}`, "content-type": "application/json" };
  const call = request(`${service.api}/chat/completions`, { method: "POST", headers, agent: false }, (res) => {
    res.on("error", () => {}).resume();
  });
  call.on("error", () => {});
  call.end(JSON.stringify({ model: "slow", stream: true, messages: [{ role: "user", content: "x" }] }));
  return () => call.destroy();
}

const idle = {
  upstream: null,
  state: "ready",
  reason: null,
  until: null,
  outstanding_requests: 0,
  outstanding_tokens: 0,
  weight: 1,
  priority: 0,
};

const pageOfState = async () => (await (await fetch(`${service.ops}/debug/state`)).json()) as Record<string, unknown>;

describe("/debug/state", () => {
  it("has the documented keys, and only zeros in an idle service", async () => {
    const page = await pageOfState();
    expect(page).toEqual({
      requests: { running: 0, waiting: 0, by_stage: {} },
      models: [
        { id: "embed", slots: 64, busy: 0, waiting: 0, produced_tokens: 0 },
        { id: "slow", slots: 1, busy: 0, waiting: 0, produced_tokens: 0 },
      ],
      deployments: [
        { ...idle, id: "embedded/embed", model: "embed" },
        { ...idle, id: "embedded/slow", model: "slow" },
      ],
      connections: { http: 0, grpc: 0 },
      streams: 0,
      timers: 0,
      deliveries: { due: 0, in_flight: 0 },
      live_leases: 0,
    });
  });

  it("shows running and waiting requests, and zeros after they have ended", async () => {
    const leaves = [stream(), stream()];
    await expect
      .poll(() => service.debugState())
      .toMatchObject({
        requests: { running: 1, waiting: 1 },
        models: [{ id: "embed" }, { id: "slow", busy: 1, waiting: 1 }],
        deployments: [{ outstanding_requests: 0 }, { outstanding_requests: 1 }],
        live_leases: 2,
      });
    const busy = await service.debugState();
    expect(busy.timers).toBeGreaterThan(0);
    expect(busy.streams).toBeGreaterThan(0);
    for (const leave of leaves) leave();
    await expect
      .poll(() => service.debugState())
      .toMatchObject({
        requests: { running: 0, waiting: 0, by_stage: {} },
        models: [{ id: "embed" }, { id: "slow", busy: 0, waiting: 0 }],
        deployments: [{ outstanding_requests: 0 }, { outstanding_requests: 0 }],
        connections: { http: 0 },
        streams: 0,
        timers: 0,
        live_leases: 0,
      });
  });
});
