import { describe, expect, it } from "vitest";
import type { SystemJson } from "../../../gen/unified/admin/v1/system_pb.js";
import { adviceOf, problemsOf } from "../../../src/dashboard/pages/overview/hints.js";

const healthy: SystemJson = {
  state: { kind: "embedded", ok: true },
  models: [{ id: "a", state: "ready", slots: 2, running: 2 }],
};

describe("problems on the overview", () => {
  it("are empty for a healthy service", () => {
    expect(problemsOf(healthy)).toEqual([]);
  });

  it("name an unavailable store and the spooled requests", () => {
    const texts = problemsOf({ ...healthy, state: { kind: "redis", spooled: "3" } }).map(({ text }) => text);
    expect(texts[0]).toBe("The store (redis) is unavailable.");
    expect(texts[1]).toMatch(/^3 finished requests are spooled/);
  });

  it("name failed and overloaded models, and an empty catalog", () => {
    const models = [
      { id: "a", state: "failed", problem: "It ended." },
      { id: "b", slots: 2, running: 2, waiting: 5 },
      { id: "c", slots: 2, running: 2, waiting: 3 },
    ];
    expect(problemsOf({ ...healthy, models })).toEqual([
      { text: "a: It ended.", page: "models" },
      { text: "b: all slots are busy, 5 requests are queued.", page: "models" },
    ]);
    expect(problemsOf({ ...healthy, models: [] })[0]?.text).toContain("uis models pull");
  });

  it("name failing endpoints", () => {
    expect(problemsOf({ ...healthy, endpointsFailing: 2 })).toEqual([
      { text: "2 webhook endpoints are failing and will be disabled if the failures continue.", page: "deliveries" },
    ]);
  });
});

describe("advice on the overview", () => {
  it("contains every warning of the service, and warnings are no problems", () => {
    const system = { ...healthy, warnings: ["Look here.", "And here."] };
    expect(adviceOf(system)).toEqual([{ text: "Look here." }, { text: "And here." }]);
    expect(problemsOf(system)).toEqual([]);
  });
});
