import { describe, expect, it } from "vitest";
import type { SystemJson } from "../../../gen/unified/admin/v1/system_pb.js";
import { hintsOf } from "../../../src/dashboard/pages/overview/hints.js";

const healthy: SystemJson = {
  state: { kind: "embedded", ok: true },
  models: [{ id: "a", state: "ready", slots: 2, running: 2 }],
};

describe("warnings of the overview", () => {
  it("are empty for a healthy service", () => {
    expect(hintsOf(healthy)).toEqual([]);
  });

  it("name an unavailable store and the spooled requests", () => {
    const texts = hintsOf({ ...healthy, state: { kind: "redis", spooled: "3" } }).map(({ text }) => text);
    expect(texts[0]).toBe("The store (redis) is unavailable.");
    expect(texts[1]).toMatch(/^3 finished requests are spooled/);
  });

  it("name failed and overloaded models, and an empty catalog", () => {
    const models = [
      { id: "a", state: "failed", problem: "It ended." },
      { id: "b", slots: 2, running: 2, waiting: 5 },
      { id: "c", slots: 2, running: 2, waiting: 3 },
    ];
    expect(hintsOf({ ...healthy, models })).toEqual([
      { text: "a: It ended.", page: "models" },
      { text: "b: all slots are busy, 5 requests are queued.", page: "models" },
    ]);
    expect(hintsOf({ ...healthy, models: [] })[0]?.text).toContain("uis models pull");
  });

  it("name failing endpoints and repeat every warning of the service", () => {
    expect(hintsOf({ ...healthy, endpointsFailing: 2, warnings: ["Look here."] })).toEqual([
      { text: "2 webhook endpoints are failing and will be disabled if the failures continue.", page: "deliveries" },
      { text: "Look here." },
    ]);
  });
});
