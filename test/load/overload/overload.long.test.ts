import { mkdtempSync, rmSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LoadPlan, type Stream, type StreamFigures, sendLoad } from "../../support/open-loop.js";
import { type ServiceProcess, startServiceProcess } from "../../support/service-process.js";

const slots = 16;
const holdMs = 100;
/** Requests that the model serves per second. */
const capacity = (slots * 1_000) / holdMs;
const seconds = 20;
const warmUpS = 4;
const dimensions = 256;

const adminToken = "administrator-of-the-load-test";
const folder = mkdtempSync(join(tmpdir(), "uis-overload-"));
let service: ServiceProcess;

beforeAll(async () => {
  const slow = { text: "tick", tokens: 1, first_token_delay_ms: holdMs };
  const models = [
    { id: "busy", engine: "scripted", slots, scripted: slow },
    { id: "small", engine: "scripted", slots: 64, scripted: slow },
    { id: "long", engine: "scripted", slots: 4, scripted: { ...slow, context_length: 16_000_000 } },
    { id: "vectors", engine: "scripted", slots: 4, scripted: { dimensions, context_length: 4_096 } },
  ];
  service = await startServiceProcess({ folder, config: { models }, env: { UIS_ADMIN_TOKEN: adminToken } });
});

afterAll(async () => {
  await service.kill();
  rmSync(folder, { recursive: true, force: true });
});

/** Creates a key of a new account and returns its secret. */
async function newKey(name: string, priority = "PRIORITY_DEFAULT"): Promise<string> {
  const response = await fetch(`${service.http}/unified.admin.v1.ApiKeyService/CreateApiKey`, {
    method: "POST",
    headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/json" },
    body: JSON.stringify({ name, account: name, scope: "SCOPE_READ_WRITE", priority }),
  });
  return ((await response.json()) as { secret: string }).secret;
}

const chat = (name: string, key: string, model: string, perSecond: number | null, size = 60): Stream => {
  return { name, key, path: "/v1/chat/completions", model, perSecond, size };
};

async function measure(title: string, streams: readonly Stream[]): Promise<Readonly<Record<string, StreamFigures>>> {
  const plan: LoadPlan = { url: service.http, streams, warmUpS, seconds };
  const figures = await sendLoad(plan);
  const load = loadavg()[0]?.toFixed(1);
  for (const [name, row] of Object.entries(figures)) {
    process.stdout.write(`${title} ${name}: ${JSON.stringify(row)}, load ${load}\n`);
  }
  return figures;
}

function of(figures: Readonly<Record<string, StreamFigures>>, name: string): StreamFigures {
  const found = figures[name];
  if (found === undefined) throw new Error(`no figures of ${name}`);
  return found;
}

describe("a service under overload", () => {
  it("serves as many requests at ten times its capacity as at its capacity, and rejects the rest immediately (REL-26)", {
    timeout: 600_000,
  }, async () => {
    const key = await newKey("overload");
    const rows = new Map<number, StreamFigures>();
    for (const multiple of [0.5, 1, 2, 5, 10]) {
      const figures = await measure(`${multiple}x`, [chat("k", key, "busy", multiple * capacity)]);
      rows.set(multiple, of(figures, "k"));
    }
    const [one, ten] = [rows.get(1), rows.get(10)];
    expect(ten?.failures).toEqual({});
    expect(ten?.goodput).toBeGreaterThan(0.9 * (one?.goodput ?? Number.NaN));
    // The aim is 20 ms.
    expect(ten?.rejectedP99Ms).toBeLessThan(5 * 20);
  });

  it("a greedy key at most doubles the latency of the answers to another key (REL-26)", {
    timeout: 300_000,
  }, async () => {
    const [greedy, light] = [await newKey("greedy"), await newKey("light")];
    const alone = of(await measure("alone", [chat("light", light, "busy", 10)]), "light");
    const both = await measure("beside a greedy key", [
      chat("greedy", greedy, "busy", 5 * capacity),
      chat("light", light, "busy", 10),
    ]);
    expect(of(both, "light").rejected).toBe(0);
    expect(of(both, "light").okP50Ms).toBeLessThan(2 * alone.okP50Ms);
  });

  it("serves interactive before default before batch requests (KEY-24)", { timeout: 300_000 }, async () => {
    const priorities = ["interactive", "default", "batch"] as const;
    const streams: Stream[] = [];
    for (const priority of priorities) {
      const key = await newKey(priority, `PRIORITY_${priority.toUpperCase()}`);
      streams.push(chat(priority, key, "busy", 0.6 * capacity));
    }
    const figures = await measure("priorities", streams);
    const [interactive, normal, batch] = priorities.map((name) => of(figures, name));
    expect(interactive?.ok).toBeGreaterThan(normal?.ok ?? Number.NaN);
    expect(normal?.ok).toBeGreaterThan(batch?.ok ?? Number.NaN);
    expect(batch?.ok).toBeGreaterThan(0);
  });
});

describe("32 small chats", () => {
  const perSecond = (32 * 1_000) / holdMs;

  it.each([
    ["a chat of 10 MB", (key: string) => chat("large", key, "long", null, 10_000_000)],
    [
      "an embedding of 2,048 inputs",
      (key: string): Stream => {
        return { name: "large", key, path: "/v1/embeddings", model: "vectors", perSecond: null, size: 2_048 };
      },
    ],
  ])("are hardly slower while %s is processed (REL-3)", { timeout: 300_000 }, async (name, neighbour) => {
    const key = await newKey("small");
    const small = chat("small", key, "small", perSecond);
    const alone = of(await measure("alone", [small]), "small");
    const large = neighbour(await newKey("large"));
    // The large requests are sent from a separate process, because sending their bodies would delay the small requests.
    const [beside, others] = await Promise.all([measure(`beside ${name}`, [small]), measure(name, [large])]);
    expect(of(others, "large").ok).toBeGreaterThan(0);
    expect(of(beside, "small").failures).toEqual({});
    // The aim is 20 ms.
    expect(of(beside, "small").okP99Ms - alone.okP99Ms).toBeLessThan(5 * 20);
  });
});
