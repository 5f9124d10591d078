import { mkdirSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eventually } from "../../support/eventually.js";
import { writeRandomBertGguf, writeRandomGguf } from "../../support/gguf/random-gguf.js";
import { seededPick } from "../../support/random-numbers.js";
import { ServiceFolder, type ServiceProcess } from "../../support/service-process.js";
import type { DebugState } from "../../support/start-service.js";
import { enginePids, type MemorySample, memoryGrowth, sampleMemory } from "./soak-memory.js";

const soakMs = 20 * 60_000;
/** Time for caches to fill and garbage collectors to adapt. */
const warmUpMs = 4 * 60_000;
/** Maximum growth in mebibytes per minute. A run of twelve seconds shows only a large leak. */
const growthMax = 1;
const sampleMs = 5_000;
/**
 * Percentage of streaming clients that disconnect. Five of seven clients stream, so this is a little more than 5 % of
 * all.
 */
const leaving = 8;
const leftShareMin = 0.05;
const slots = 2;
/** Makes an answer repeat the letter a, so that it is not complete when its client disconnects. */
const long = { max_tokens: 400, logit_bias: { 97: 100 } };

const pick = seededPick(7);
let served: ServiceFolder;
let serve: ServiceProcess;

beforeAll(async () => {
  served = await ServiceFolder.create();
  const [chat, encoder] = [join(served.folder, "chat.gguf"), join(served.folder, "encoder.gguf")];
  await writeRandomGguf(chat);
  await writeRandomBertGguf(encoder);
  const config = {
    state: { durability: "none" },
    engine: { threads: 1 },
    models: [
      { id: "chat", engine: "llama", source: `file:${chat}`, slots, context_length: 1024 },
      { id: "embed", engine: "llama", source: `file:${encoder}`, slots, context_length: 256 },
    ],
  };
  serve = await served.start(config, { env: { LOG_LEVEL: "warn" } });
});

afterAll(() => served.remove());

/** Sends a request; resolves with its status when the answer has ended, or with null when the client disconnected before. */
function send(path: string, body: object, leaveAfterChunks: number | null = null): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const sent = request(`${serve.line.api}${path}`, {
      method: "POST",
      agent: false,
      headers: { authorization: `Bearer ${serve.key}`, "content-type": "application/json" },
    });
    sent.once("response", (response) => {
      let chunks = 0;
      response.on("data", () => {
        chunks += 1;
        if (chunks === leaveAfterChunks) sent.destroy();
      });
      response.once("end", () => resolve(response.statusCode ?? 0));
    });
    sent.once("error", reject);
    sent.once("close", () => resolve(null));
    sent.end(JSON.stringify(body));
  });
}

const words = (count: number): string => Array.from({ length: count }, () => pick(1_000_000).toString(36)).join(" ");

/** Requests that clients send in rotation: every path of the engine that allocates native memory for a call. */
const kinds: readonly ((leaves: boolean) => Promise<number | null>)[] = [
  (leaves) => chat({}, leaves),
  (leaves) => chat({ logprobs: true, top_logprobs: 5 }, leaves),
  (leaves) => chat({ response_format: { type: "json_object" } }, leaves),
  (leaves) => chat({ frequency_penalty: 0.5, logit_bias: { 300: 5 }, seed: 3 }, leaves),
  (leaves) => chat({ n: 2 }, leaves),
  () => chat({ stream: false }, false),
  () => send("/embeddings", { model: "embed", input: [words(5), words(20)] }),
];

function chat(options: object, leaves: boolean): Promise<number | null> {
  const messages = [
    { role: "system", content: "Answer in short sentences." },
    { role: "user", content: words(1 + pick(60)) },
  ];
  const body = { model: "chat", messages, max_tokens: 48, stream: true, ...options };
  if (!leaves) return send("/chat/completions", body);
  return send("/chat/completions", { ...body, ...long }, 1 + pick(4));
}

async function debugState(): Promise<DebugState> {
  return (await (await fetch(`${serve.ops}/debug/state`)).json()) as DebugState;
}

describe("a service under load for a long time", () => {
  it("does not grow in memory and loses no slot although one in twenty clients disconnects (REL-2)", {
    timeout: soakMs + 180_000,
  }, async () => {
    expect(await chat({}, false)).toBe(200);
    expect(await send("/embeddings", { model: "embed", input: "Hi" })).toBe(200);
    const serverPid = serve.child.pid ?? 0;
    const engines = enginePids(serverPid);
    expect(engines).toHaveLength(2);

    const samples: MemorySample[] = [];
    const statuses = new Map<number | null, number>();
    const sinceMs = performance.now();
    for (let asked = 0; performance.now() - sinceMs < soakMs; asked += 1) {
      const status = await kinds[asked % kinds.length]?.(pick(100) < leaving);
      statuses.set(status ?? null, (statuses.get(status ?? null) ?? 0) + 1);
      const isDue = performance.now() - sinceMs >= warmUpMs + samples.length * sampleMs;
      if (isDue) samples.push(sampleMemory(serverPid, engines));
    }

    writeFigures(statuses, samples);
    expect([...statuses.keys()].filter((status) => status !== 200 && status !== null)).toEqual([]);
    const asked = [...statuses.values()].reduce((sum, count) => sum + count, 0);
    expect((statuses.get(null) ?? 0) / asked).toBeGreaterThan(leftShareMin);
    for (const growth of Object.values(memoryGrowth(samples))) expect(growth).toBeLessThan(growthMax);
    expect(enginePids(serverPid)).toEqual(engines);
    await eventually(async () => {
      const { models, requests, streams, timers, live_leases: leases } = await debugState();
      const busy = models.reduce((sum, model) => sum + model.busy + model.waiting, 0);
      return busy + requests.running + requests.waiting + streams + timers + leases === 0;
    }, "the service at rest");
    const atOnce = Array.from({ length: slots }, () => chat({}, false));
    expect(await Promise.all(atOnce)).toEqual(atOnce.map(() => 200));
  });
});

/** Writes the measurements of a run next to the test reports. */
function writeFigures(statuses: ReadonlyMap<number | null, number>, samples: readonly MemorySample[]): void {
  const figures = {
    seconds: soakMs / 1_000,
    answers: statuses.get(200) ?? 0,
    left: statuses.get(null) ?? 0,
    mebibytesPerMinute: memoryGrowth(samples),
    /** One sample of each minute. */
    samples: samples.filter((_, i) => i % (60_000 / sampleMs) === 0).map(({ rss }) => rss),
  };
  mkdirSync("test-results/figures", { recursive: true });
  writeFileSync("test-results/figures/soak.json", `${JSON.stringify(figures, null, 2)}\n`);
}
