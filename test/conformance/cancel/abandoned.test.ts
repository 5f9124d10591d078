import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { writeScriptedGguf } from "../../support/gguf/scripted-gguf.js";
import { hasPython } from "../../support/python-venv.js";
import { type RunningService, startService } from "../../support/start-service.js";
import { byTier } from "../../support/tier.js";
import { LlamaServer } from "../../support/upstream/llama-server.js";
import { type Figures, figuresOf, writeFigures } from "./latencies.js";
import { allWays, type Sent, type Way } from "./ways.js";

const wayNames = ["REST", "Connect", "gRPC-Web", "gRPC"] as const;
const kinds = ["stream", "unary"] as const;
const stages = ["in the queue", "before the first token", "in mid-stream"] as const;

/** Time within which the server's slot is free for 99.5 % of the requests; a short run allows five times as much. */
const aimMs = 250;
const boundMs = byTier({ ci: 5 * aimMs, long: aimMs });
/** Requests for each stage, kind and protocol: 1,008 requests in total, or 72 in a short run. */
const rounds = byTier({ ci: 3, long: 42 });
const slots = 2;
const contextLength = 8_192;
/** Length of a prompt that the model takes seconds to evaluate. */
const longPromptWords = 500;

// Needs python3 with venv, which not every machine has.
describe.skipIf(!hasPython)("requests to llama.cpp's own server that their clients abandon", () => {
  let folder: string;
  let server: LlamaServer;
  let service: RunningService;
  let ways: ReadonlyMap<string, Way>;
  let sentCount = 0;
  const latenciesMs: number[] = [];
  const figures: Record<string, Figures> = {};

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "uis-abandoned-"));
    const file = join(folder, "endless.gguf");
    // An answer takes many seconds to fill the context.
    await writeScriptedGguf(file, { text: "on and", isEndless: true, contextLength, layers: 8 });
    server = await LlamaServer.start({ file, slots, contextLength, batch: 32, alias: "endless" });
    const deployment = { engine: "openai", upstream: "llama", model: "endless" };
    service = await startService({
      config: {
        upstreams: { llama: { url: server.url, kind: "llama-server" } },
        models: [
          { id: "endless", ...deployment, slots },
          { id: "one-slot", ...deployment, slots: 1 },
        ],
        limits: { queue_wait: "10m" },
      },
    });
  }, 300_000);

  // Separate connections for each test: Node 24 closes a connection with more than a thousand resets as an attack.
  beforeEach(() => {
    ways = new Map(allWays(service).map((way) => [way.name, way]));
  });

  afterAll(async () => {
    writeFigures(figures, "abandoned");
    await service?.close();
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** No two prompts have the same beginning, so that the server's prompt cache is never used. */
  function send(name: string, model: string, kind: (typeof kinds)[number], words = 1): Sent {
    sentCount += 1;
    const way = ways.get(name);
    if (way === undefined) throw new Error(`no way ${name}`);
    return way.send({ model, kind, text: `${sentCount} ${"abcdefghij ".repeat(words)}` });
  }

  const busySlots = async (): Promise<readonly number[]> => server.busySlots();

  /** Waits until the server generates exactly one request, and has produced at least this number of tokens. */
  const untilGenerated = (tokens: number): Promise<void> =>
    eventually(async () => {
      const [decoded = -1, ...others] = await busySlots();
      return others.length === 0 && decoded >= tokens;
    }, "a request in the server");

  /** Ends the requests; returns the milliseconds until the server has no busy slot. */
  async function leave(...sent: readonly Sent[]): Promise<number> {
    const leftAtMs = performance.now();
    for (const { leave: end } of sent) end();
    await eventually(async () => (await busySlots()).length === 0, "free slots");
    const latencyMs = performance.now() - leftAtMs;
    for (const { over } of sent) await over;
    return latencyMs;
  }

  const abandon: Record<(typeof stages)[number], (name: string, kind: (typeof kinds)[number]) => Promise<number>> = {
    async "in the queue"(name, kind) {
      const running = send(name, "one-slot", "stream");
      await running.firstItem;
      const queued = send(name, "one-slot", kind);
      await eventually(async () => (await service.debugState()).requests.waiting === 1, "a request in the queue");
      // The waiting request is abandoned first, and must not get the slot that becomes free.
      return await leave(queued, running);
    },
    async "before the first token"(name, kind) {
      const sent = send(name, "endless", kind, longPromptWords);
      await untilGenerated(0);
      const [decoded] = await busySlots();
      expect(decoded).toBe(0);
      return await leave(sent);
    },
    async "in mid-stream"(name, kind) {
      const sent = send(name, "endless", kind);
      if (kind === "stream") await sent.firstItem;
      await untilGenerated(5);
      return await leave(sent);
    },
  };

  describe.each(wayNames)("over %s", (name) => {
    it.each(stages.flatMap((stage) => kinds.map((kind) => [kind, stage] as const)))(
      "frees the slot immediately: %s, %s (REL-2)",
      { timeout: 600_000 },
      async (kind, stage) => {
        const own: number[] = [];
        for (let round = 0; round < rounds; round += 1) own.push(await abandon[stage](name, kind));
        figures[`${name}, ${kind}, ${stage}`] = figuresOf(own);
        latenciesMs.push(...own);
        await eventually(async () => {
          const { requests, streams, live_leases: leases } = await service.debugState();
          return requests.running + requests.waiting + streams + leases === 0;
        }, "the service at rest");
      },
    );
  });

  it("free 99.5 % of their slots in time, and are all logged as cancelled (REL-2)", () => {
    figures["all"] = figuresOf(latenciesMs);
    process.stdout.write(`abandoned: ${JSON.stringify(figures["all"])}\n`);
    expect(latenciesMs).toHaveLength(rounds * wayNames.length * kinds.length * stages.length);
    expect(figures["all"].p995Ms).toBeLessThan(boundMs);
    const outcomes = service.logs.filter(({ msg }) => msg === "request").map(({ outcome }) => outcome);
    expect(outcomes).toEqual(Array(sentCount).fill("client_left"));
  });
});
