import { describe, expect, it } from "vitest";
import { type Behaviour, SimulatedModel } from "./simulated-model.js";

const perSecond = 100;

const failing: readonly Behaviour[] = ["killed", "hung", "slow", "500", "429"];

describe("one failing upstream of three, at 100 requests a second", () => {
  it.each(
    failing.flatMap((behaviour) => [
      { behaviour, affinity: false },
      { behaviour, affinity: true },
    ]),
  )(
    "$behaviour, affinity $affinity: no client sees a failure, and upstreams get at most 1.25 times the requests (REL-8, REL-9)",
    async ({ behaviour, affinity }) => {
      const model = new SimulatedModel({ affinity });
      await model.run(5, perSecond);
      const bad = model.upstream(0);
      if (behaviour === "killed") bad.kill();
      else bad.behaviour = behaviour;
      await model.run(60, perSecond);
      expect(model.sent).toBeGreaterThan(6_000);
      expect([model.failed, model.budget.exhausted, model.room.waiting]).toEqual([0, 0, 0]);
      expect(model.received / model.sent).toBeLessThanOrEqual(1.25);
    },
  );

  it("in 10 cycles, a killed upstream gets only probes after 2 s, and gets requests again within 15 s of its restart (REL-9)", async () => {
    const model = new SimulatedModel({});
    const bad = model.upstream(0);
    await model.run(10, perSecond);
    for (let cycle = 0; cycle < 10; cycle++) {
      bad.kill();
      await model.run(2, perSecond);
      const afterEjection = bad.received;
      await model.run(7, perSecond);
      expect(bad.received - afterEjection).toBeLessThanOrEqual(1);
      // Some outages end before the first probe, others after several of them.
      await model.run(6 * cycle, perSecond);
      bad.behaviour = "works";
      await model.run(14, perSecond);
      const before = bad.answered;
      await model.run(1, perSecond);
      expect(bad.answered - before).toBeGreaterThan(perSecond / 3 / 2);
      await model.run(10, perSecond);
    }
    expect(model.failed).toBe(0);
    expect(bad.states.filter((state) => state === "ready").length).toBe(10);
    for (const at of [1, 2]) expect(model.upstream(at).states).toEqual([]);
  });

  it("an upstream that works again gets a tenth of its share in the first second and its full share after 10 s", async () => {
    const model = new SimulatedModel({});
    const bad = model.upstream(0);
    bad.kill();
    await model.run(9, perSecond);
    bad.behaviour = "works";
    while (bad.ejection.state.state !== "ready") await model.run(0.1, perSecond);
    const inSecond = async (): Promise<number> => {
      const before = bad.received;
      await model.run(1, perSecond);
      return bad.received - before;
    };
    expect(await inSecond()).toBeLessThan(15);
    await model.run(9, perSecond);
    expect(await inSecond()).toBeGreaterThan(25);
  });
});

describe("several failing upstreams", () => {
  it("no client sees a failure when two of three are killed", async () => {
    const model = new SimulatedModel({});
    await model.run(5, perSecond);
    for (const at of [0, 1]) model.upstream(at).kill();
    await model.run(60, perSecond);
    expect(model.failed).toBe(0);
    expect(model.received / model.sent).toBeLessThanOrEqual(1.25);
  });

  it("when all of the first priority are killed, the next priority serves them and no client sees a failure", async () => {
    const model = new SimulatedModel({ priorities: [0, 0, 1] });
    await model.run(5, perSecond);
    expect(model.upstream(2).received).toBe(0);
    for (const at of [0, 1]) model.upstream(at).kill();
    await model.run(60, perSecond);
    expect(model.failed).toBe(0);
    expect(model.received / model.sent).toBeLessThanOrEqual(1.1);
    for (const at of [0, 1]) model.upstream(at).behaviour = "works";
    await model.run(20, perSecond);
    const { received } = model.upstream(2);
    await model.run(10, perSecond);
    expect(model.upstream(2).received).toBe(received);
  });

  it("when all fail, requests are still tried, on average at most 1.25 times, and succeed as soon as one upstream works again", async () => {
    const model = new SimulatedModel({});
    for (const upstream of model.upstreams) upstream.behaviour = "500";
    await model.run(30, 200);
    expect(model.failed).toBeGreaterThan(0.9 * model.sent);
    expect(model.received).toBeGreaterThanOrEqual(model.sent);
    expect(model.received / model.sent).toBeLessThanOrEqual(1.25);
    for (const upstream of model.upstreams) upstream.behaviour = "works";
    await model.run(2, 200);
    const { failed } = model;
    await model.run(10, 200);
    expect(model.failed).toBe(failed);
  });

  it("when all are rate limited, requests are still tried", async () => {
    const model = new SimulatedModel({});
    for (const upstream of model.upstreams) upstream.ejection.cool(60_000, "429");
    expect(await Promise.race([model.send(), model.run(1, 0).then(() => "none")])).toBeInstanceOf(Object);
  });

  it("the only upstream of a model is tried again and never ejected", async () => {
    const model = new SimulatedModel({ priorities: [0] });
    const [only] = model.upstreams;
    await model.run(1, 10);
    model.upstream(0).kill();
    await model.run(1, 10);
    expect(only?.ejection.state.state).toBe("ready");
    model.upstream(0).behaviour = "works";
    const { failed } = model;
    await model.run(5, 10);
    expect(model.failed).toBe(failed);
  });
});
