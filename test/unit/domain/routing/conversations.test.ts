import { describe, expect, it } from "vitest";
import { affinityKey } from "../../../../src/domain/routing/affinity.js";
import { seededRandom } from "./routing-fixture.js";
import { SimulatedModel, type SimulatedUpstream } from "./simulated-model.js";

const upstreamCount = 8;
const slots = 64;
const conversationCount = 400;
const turns = 20;
const load = 0.7;

/** Conversations whose prompts grow: each turn repeats what was said before. */
function conversations() {
  return Array.from({ length: conversationCount }, (_, at) => ({
    messages: [`You are the assistant of customer ${at}.`, `My question is number ${at}.`],
    upstreams: [] as SimulatedUpstream[],
  }));
}

describe("400 conversations over 8 upstreams at 70 % load", () => {
  it("find their upstream in at least 95 % of the turns, and none has more than 1.25 times the mean", async () => {
    const model = new SimulatedModel({ priorities: Array(upstreamCount).fill(0), affinity: true });
    const random = seededRandom(11);
    const talk = async ({ messages, upstreams }: ReturnType<typeof conversations>[number]): Promise<void> => {
      for (let turn = 0; turn < turns; turn++) {
        // An answer takes 100 ms on average, so that this pause leaves 70 % of the slots in use.
        const pauseMs = 100 * (conversationCount / (load * upstreamCount * slots) - 1) * 2 * random();
        await new Promise<void>((resolve) => {
          model.clock.after(pauseMs, resolve);
        });
        const key = affinityKey({
          account: "a",
          session: null,
          model: "m",
          tools: "",
          beginning: messages.slice(0, 2),
        });
        const upstream = await model.send(key);
        if (upstream === null) throw new Error("a turn failed");
        upstreams.push(upstream);
        messages.push(`Answer ${turn}`, `Question ${turn}`);
      }
    };
    const all = conversations();
    let ended = 0;
    for (const conversation of all) void talk(conversation).then(() => ended++);
    const running = model.upstreams.map(() => 0);
    let steps = 0;
    for (; ended === 0 && steps < 2_000; steps++) {
      await model.step();
      model.upstreams.forEach(({ outstandingRequests }, at) => {
        running[at] = (running[at] ?? 0) + outstandingRequests;
      });
    }
    const mean = running.reduce((sum, one) => sum + one) / upstreamCount;
    expect(mean / steps / slots).toBeGreaterThan(0.65);
    for (const one of running) expect(one / mean).toBeLessThanOrEqual(1.25);
    for (; ended < conversationCount && steps < 2_000; steps++) await model.step();
    expect(ended).toBe(conversationCount);
    const repeats = all.flatMap(({ upstreams }) =>
      upstreams.slice(1).map((upstream, at) => upstream === upstreams[at]),
    );
    expect(repeats.filter(Boolean).length / repeats.length).toBeGreaterThanOrEqual(0.95);
    for (const { received } of model.upstreams) {
      expect((received * upstreamCount) / model.received).toBeLessThanOrEqual(1.25);
    }
  });
});
