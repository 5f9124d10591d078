import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ServiceClient } from "../../support/service-client.js";
import { ServiceFolder, type ServiceProcess } from "../../support/service-process.js";
import { RawUpstream } from "../../support/upstream/raw-upstream.js";
import { whole } from "../../support/upstream/test-upstream.js";

const key = "key-of-this-test";
const adminToken = "administrator-of-this-test";
const upstreamCount = 8;
const slots = 64;
const conversationCount = 400;
const turnCount = 20;
const load = 0.7;
/** Mean time of an answer; a single one takes half to one and a half of it. */
const answerMs = 2_000;

let served: ServiceFolder;
let service: ServiceProcess;
let upstreams: RawUpstream[];
/** Requests at each upstream. */
let running: number[];
let isSlow = true;

beforeEach(async () => {
  isSlow = true;
  served = await ServiceFolder.create();
  running = Array.from({ length: upstreamCount }, () => 0);
  upstreams = await Promise.all(
    running.map((_, at) =>
      RawUpstream.start((socket) => {
        running[at] = (running[at] ?? 0) + 1;
        socket.on("close", () => {
          running[at] = (running[at] ?? 0) - 1;
        });
        setTimeout(() => socket.end(whole), isSlow ? answerMs * (0.5 + Math.random()) : 0);
      }),
    ),
  );
  // Azure lists no models, so the servers receive nothing but requests.
  const settings = Object.fromEntries(upstreams.map(({ url }, at) => [`u${at}`, { url, kind: "azure" }]));
  const deployments = upstreams.map((_, at) => ({ engine: "openai", upstream: `u${at}`, slots }));
  service = await served.start(
    {
      state: { durability: "none" },
      upstreams: settings,
      models: [{ id: "m", affinity: "prefix", deployments }],
    },
    { env: { UIS_BOOTSTRAP_API_KEY: key, UIS_ADMIN_TOKEN: adminToken } },
  );
});
afterEach(async () => {
  await served.remove();
  for (const upstream of upstreams) await upstream.close();
});

/** A conversation, whose prompt grows, with the deployments that answered its turns. */
interface Conversation {
  readonly messages: { role: string; content: string }[];
  readonly answeredBy: string[];
}

async function takeTurn(client: ServiceClient, { messages, answeredBy }: Conversation): Promise<void> {
  const { status, headers, text } = await client.chat("m", { messages });
  if (status !== 200) throw new Error(`a turn failed: ${text}`);
  answeredBy.push(headers.get("x-uis-deployment") ?? "");
  messages.push({ role: "assistant", content: "Hello" }, { role: "user", content: `Question ${answeredBy.length}` });
}

/**
 * Takes one turn of every conversation, one at a time, so that load moves no conversation to another deployment. Resolves
 * with their deployments.
 */
async function homesOf(client: ServiceClient, conversations: readonly Conversation[]): Promise<readonly string[]> {
  for (const conversation of conversations) await takeTurn(client, conversation);
  return conversations.map(({ answeredBy }) => answeredBy.at(-1) ?? "");
}

describe("400 conversations over 8 upstreams at 70 % load, through a service process", { timeout: 300_000 }, () => {
  it("reach their upstream in at least 95 % of the turns; no upstream has more than 1.25 times the mean load, and a drained one moves few conversations", async () => {
    const client = new ServiceClient(service.http, key);
    const conversations: Conversation[] = Array.from({ length: conversationCount }, (_, at) => ({
      messages: [
        { role: "system", content: `You are the assistant of customer ${at}.` },
        { role: "user", content: `My question is number ${at}.` },
      ],
      answeredBy: [],
    }));
    isSlow = false;
    const homes = await homesOf(client, conversations);
    isSlow = true;
    const sums = running.map(() => 0);
    let samples = 0;
    let left = conversationCount * turnCount;
    const idle = [...conversations];
    const talking = Array.from({ length: Math.round(load * upstreamCount * slots) }, async () => {
      while (left > 0) {
        left -= 1;
        const [one] = idle.splice(Math.floor(Math.random() * idle.length), 1);
        if (one === undefined) throw new Error("there are fewer conversations than running requests");
        await takeTurn(client, one);
        idle.push(one);
      }
    });
    while (left > 0) {
      running.forEach((count, at) => {
        sums[at] = (sums[at] ?? 0) + count;
      });
      samples += 1;
      await delay(50);
    }
    await Promise.all(talking);

    const turns = conversations.flatMap(({ answeredBy }, at) =>
      answeredBy.slice(1).map((id, turn) => ({ atHome: id === homes[at], again: id === answeredBy[turn], id })),
    );
    const received = running.map((_, at) => turns.filter(({ id }) => id === `u${at}/m`).length);
    const mean = sums.reduce((sum, one) => sum + one) / upstreamCount;
    isSlow = false;
    const administrator = new ServiceClient(service.http, adminToken);
    const drained = await administrator.rpc("unified.admin.v1.UpstreamService/DrainDeployment", { id: "u3/m" });
    expect(drained.status, drained.text).toBe(200);
    const moved = (await homesOf(client, conversations)).filter((home, at) => home !== homes[at]).length;
    const figures = {
      turns: turns.length,
      load: Number((mean / samples / slots).toFixed(3)),
      onTheirUpstream: turns.filter(({ atHome }) => atHome).length / turns.length,
      whereTheTurnBeforeWas: turns.filter(({ again }) => again).length / turns.length,
      mostRequests: Math.max(...received) / (turns.length / upstreamCount),
      mostRunning: Math.max(...sums) / mean,
      movedByADrain: moved / conversationCount,
    };
    process.stdout.write(`affinity: ${JSON.stringify(figures)}\n`);
    expect(figures.load).toBeGreaterThan(0.6);
    expect(figures.onTheirUpstream).toBeGreaterThanOrEqual(0.95);
    expect(figures.mostRequests).toBeLessThanOrEqual(1.25);
    expect(figures.mostRunning).toBeLessThanOrEqual(1.25);
    expect(figures.movedByADrain).toBeLessThanOrEqual(1 / upstreamCount + 0.05);
    expect(new Set(conversations.map(({ answeredBy }) => answeredBy.at(-1))).has("u3/m")).toBe(false);
  });
});
