import { setTimeout as delay } from "node:timers/promises";
import { afterEach, describe, expect, it } from "vitest";
import { type ClientAnswer, ServiceClient } from "../../support/service-client.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { byTier } from "../../support/tier.js";
import { RawUpstream } from "../../support/upstream/raw-upstream.js";
import { whole } from "../../support/upstream/test-upstream.js";

/** A deployment at an upstream that answers after `answerMs`. */
interface Deployment {
  readonly answerMs: number;
  readonly weight?: number;
  readonly slots?: number;
}

/** Requests at one upstream. */
interface Load {
  received: number;
  running: number;
  runningMax: number;
  /** When the last one was answered, by `performance.now()`. */
  idleSinceMs: number;
}

let service: RunningService | null = null;
const servers: RawUpstream[] = [];

afterEach(async () => {
  await service?.close();
  for (const server of servers.splice(0)) await server.close();
  service = null;
});

/** A service with the model `m` on the given deployments. */
async function startWith(deployments: readonly Deployment[]) {
  const loads: Load[] = [];
  for (const { answerMs } of deployments) {
    const load: Load = { received: 0, running: 0, runningMax: 0, idleSinceMs: Number.POSITIVE_INFINITY };
    loads.push(load);
    const server = await RawUpstream.start((socket) => {
      load.received += 1;
      load.running += 1;
      load.runningMax = Math.max(load.runningMax, load.running);
      setTimeout(() => {
        load.running -= 1;
        load.idleSinceMs = performance.now();
        socket.end(whole);
      }, answerMs);
    });
    servers.push(server);
  }
  // Azure lists no models, so the servers receive nothing but requests.
  const upstreams = Object.fromEntries(servers.map(({ url }, at) => [`u${at}`, { url, kind: "azure" }]));
  const model = {
    id: "m",
    deployments: deployments.map(({ weight = 1, slots = 256 }, at) => {
      return { engine: "openai", upstream: `u${at}`, weight, slots, queue_max: 256 };
    }),
  };
  service = await startService({ config: { upstreams, models: [model] } });
  const client = new ServiceClient(service.api, service.key);
  return { loads, chat: (): Promise<ClientAnswer> => client.chat("m") };
}

/** Sends requests, `atOnce` of them at a time; all must succeed. */
async function send(count: number, atOnce: number, chat: () => Promise<ClientAnswer>): Promise<void> {
  let left = count;
  const run = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      expect((await chat()).status).toBe(200);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, run));
}

/**
 * Concurrent requests, and the time of an answer, which is far longer than the delay of the test's own servers under load.
 */
const rates = byTier({
  ci: [{ atOnce: 20, answerMs: 60 }],
  long: [
    { atOnce: 1, answerMs: 5 },
    { atOnce: 10, answerMs: 100 },
    { atOnce: 100, answerMs: 100 },
  ],
});

describe("the choice among deployments of a model", () => {
  it.each(rates)(
    "300 requests, $atOnce at a time, are split 40 to 60 percent between two equal deployments",
    async ({ atOnce, answerMs }) => {
      const { loads, chat } = await startWith([{ answerMs }, { answerMs }]);
      await send(300, atOnce, chat);
      const share = (loads[0]?.received ?? 0) / 300;
      expect(share).toBeGreaterThanOrEqual(0.4);
      expect(share).toBeLessThanOrEqual(0.6);
      expect(loads.reduce((sum, { received }) => sum + received, 0)).toBe(300);
    },
  );

  it.each(rates)(
    "300 requests, $atOnce at a time, follow weights of 3 and 1 within 5 points",
    async ({ atOnce, answerMs }) => {
      const { loads, chat } = await startWith([{ answerMs, weight: 3 }, { answerMs }]);
      await send(300, atOnce, chat);
      const share = (loads[0]?.received ?? 0) / 300;
      expect(Math.abs(share - 0.75)).toBeLessThanOrEqual(byTier({ ci: 0.1, long: 0.05 }));
    },
  );

  it("12 requests on a slow (2 s) and a fast (50 ms) deployment of one slot each end within 3 s (REL-5)", async () => {
    const { loads, chat } = await startWith([
      { answerMs: 2_000, slots: 1 },
      { answerMs: 50, slots: 1 },
    ]);
    const sentAtMs = performance.now();
    await send(12, 12, chat);
    // With a queue for each deployment it would take 12 s.
    expect(performance.now() - sentAtMs).toBeLessThan(byTier({ ci: 10_000, long: 3_000 }));
    expect(loads[0]?.received).toBeLessThanOrEqual(byTier({ ci: 3, long: 1 }));
    expect(loads.map(({ runningMax }) => runningMax)).toEqual([1, 1]);
  });

  it("no deployment is idle while a request waits for a slot (REL-5)", async () => {
    const answersMs = [20, 30, 50, 500];
    const { loads, chat } = await startWith(answersMs.map((answerMs) => ({ answerMs, slots: 1 })));
    // A queue for each deployment would leave the slow one with requests for seconds after the others are done.
    const sending = send(100, 100, chat);
    let isSending = true;
    let idleMs = 0;
    void sending.then(() => {
      isSending = false;
    });
    while (isSending) {
      const { models } = (await service?.debugState()) ?? { models: [] };
      const nowMs = performance.now();
      // A freed slot is granted immediately, but its request takes a moment to arrive.
      const waits = models.some(({ waiting }) => waiting > 0);
      for (const { running, idleSinceMs } of loads) {
        if (waits && running === 0) idleMs = Math.max(idleMs, nowMs - idleSinceMs);
      }
      await delay(2);
    }
    await sending;
    expect(loads.map(({ runningMax }) => runningMax)).toEqual([1, 1, 1, 1]);
    expect(idleMs).toBeLessThan(500);
  });
});
