import { describe, expect, it } from "vitest";
import { affinityKey } from "../../../../src/domain/routing/affinity.js";
import { seededRandom } from "./routing-fixture.js";
import { SimulatedModel, type SimulatedUpstream } from "./simulated-model.js";

const upstreamCount = 8;
const conversationCount = 400;
const turnCount = 20;
const load = 0.7;

interface Turn {
  readonly upstream: SimulatedUpstream;
  /** Upstreams that had a free slot when the turn began. */
  readonly free: readonly SimulatedUpstream[];
}

/**
 * Runs 400 conversations at 70 % load. `running`: number of requests at each upstream in every step, while all conversations
 * are active.
 */
async function converse(slots: number) {
  const model = new SimulatedModel({ priorities: Array(upstreamCount).fill(0), affinity: true, slots });
  const random = seededRandom(11);
  const talk = async (at: number): Promise<readonly Turn[]> => {
    // The beginning of the prompt, which stays equal while the prompt grows.
    const beginning = [`You are the assistant of customer ${at}.`, `My question is number ${at}.`];
    const key = affinityKey({ account: "a", session: null, model: "m", tools: "", beginning });
    const turns: Turn[] = [];
    for (let turn = 0; turn < turnCount; turn++) {
      // An answer takes 100 ms on average, so that this pause leaves 70 % of the slots in use.
      const pauseMs = 100 * (conversationCount / (load * upstreamCount * slots) - 1) * 2 * random();
      await new Promise<void>((resolve) => {
        model.clock.after(pauseMs, resolve);
      });
      const free = model.upstreams.filter(({ outstandingRequests }) => outstandingRequests < slots);
      const upstream = await model.send(key);
      if (upstream === null) throw new Error("a turn failed");
      turns.push({ upstream, free });
    }
    return turns;
  };
  let ended = 0;
  const all = Array.from({ length: conversationCount }, async (_, at) => {
    const turns = await talk(at);
    ended += 1;
    return turns;
  });
  const running = model.upstreams.map(() => 0);
  let busySteps = 0;
  for (let steps = 0; ended < conversationCount && steps < 20_000; steps++) {
    await model.step();
    if (ended > 0) continue;
    busySteps += 1;
    model.upstreams.forEach(({ outstandingRequests }, at) => {
      running[at] = (running[at] ?? 0) + outstandingRequests;
    });
  }
  return { model, running, busySteps, conversations: await Promise.all(all) };
}

/** The upstream that answered most of the turns. */
function homeOf(turns: readonly Turn[]): SimulatedUpstream | undefined {
  const counts = new Map<SimulatedUpstream, number>();
  for (const { upstream } of turns) counts.set(upstream, (counts.get(upstream) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0];
}

describe("400 conversations over 8 upstreams at 70 % load", () => {
  it("return to the same upstream in at least 95 % of the turns, and no upstream has more than 1.25 times the mean load", async () => {
    const slots = 64;
    const { model, running, busySteps, conversations } = await converse(slots);
    const mean = running.reduce((sum, one) => sum + one) / upstreamCount;
    expect(mean / busySteps / slots).toBeGreaterThan(0.65);
    for (const one of running) expect(one / mean).toBeLessThanOrEqual(1.25);
    const repeats = conversations.flatMap((turns) =>
      turns.slice(1).map(({ upstream }, at) => upstream === turns[at]?.upstream),
    );
    expect(repeats.filter(Boolean).length / repeats.length).toBeGreaterThanOrEqual(0.95);
    for (const { received } of model.upstreams) {
      expect((received * upstreamCount) / model.received).toBeLessThanOrEqual(1.25);
    }
  });

  it.each([8, 16, 32])(
    "with %i slots each, leave their upstream only while it has no free slot, in 99 of 100 turns",
    async (slots) => {
      const { conversations } = await converse(slots);
      const turns = conversations.flatMap((all) => all.map((turn) => ({ ...turn, home: homeOf(all) })));
      const left = turns.filter(({ upstream, home }) => upstream !== home);
      const couldStay = left.filter(({ free, home }) => home !== undefined && free.includes(home));
      expect(left.length / turns.length).toBeGreaterThan(0.01);
      expect(couldStay.length / turns.length).toBeLessThan(0.01);
    },
  );
});
