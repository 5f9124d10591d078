import { describe, expect, it } from "vitest";
import type { SystemJson } from "../../../gen/unified/admin/v1/system_pb.js";
import { hintsOf } from "../../../src/dashboard/pages/overview/hints.js";

const well: SystemJson = {
  state: { kind: "embedded", ok: true },
  models: [{ id: "a", state: "ready", slots: 2, running: 2 }],
};

describe("what the overview says needs attention", () => {
  it("is nothing when all is well", () => {
    expect(hintsOf(well)).toEqual([]);
  });

  it("is a store that does not answer, and what waits for it", () => {
    const texts = hintsOf({ ...well, state: { kind: "redis", spooled: "3" } }).map(({ text }) => text);
    expect(texts[0]).toBe("The store (redis) does not answer.");
    expect(texts[1]).toMatch(/^3 ended requests wait/);
  });

  it("is a model that failed or is full, and a catalog without models", () => {
    const models = [
      { id: "a", state: "failed", problem: "It ended." },
      { id: "b", slots: 2, running: 2, waiting: 5 },
      { id: "c", slots: 2, running: 2, waiting: 3 },
    ];
    expect(hintsOf({ ...well, models })).toEqual([
      { text: "a: It ended.", page: "models" },
      { text: "b: all slots are taken, and 5 requests wait.", page: "models" },
    ]);
    expect(hintsOf({ ...well, models: [] })[0]?.text).toContain("uis models pull");
  });

  it("is an endpoint that fails, and every warning of the service in its own words", () => {
    expect(hintsOf({ ...well, endpointsFailing: 2, warnings: ["Look here."] })).toEqual([
      { text: "2 webhook endpoints fail and will be disabled if they go on.", page: "deliveries" },
      { text: "Look here." },
    ]);
  });
});
