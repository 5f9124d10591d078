import { spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { eventually } from "../../support/eventually.js";
import { coreToken } from "../../support/fleet/start-fleet.js";
import { missingProgram } from "../../support/missing-program.js";
import { freePort } from "../../support/redis/redis-process.js";
import { startRedis } from "../../support/redis/start-redis.js";
import { ServiceClient } from "../../support/service-client.js";
import { type ServiceProcess, startServiceProcess } from "../../support/service-process.js";
import { rounds } from "../../support/tier.js";

const key = "key-of-this-fleet";
const models = [
  { id: "quick", engine: "scripted", slots: 200, scripted: { tokens: 5, token_delay_ms: 10 } },
  { id: "long", engine: "scripted", slots: 200, scripted: { tokens: 100, token_delay_ms: 20 } },
];

/** One process of the fleet. `start` starts it again on the same ports. */
interface Member {
  readonly name: string;
  readonly start: () => Promise<ServiceProcess>;
  running: ServiceProcess;
}

/** `fleet`: two gateways and two cores; `replicas`: two processes that are both. */
type Layout = "fleet" | "replicas";

/** The processes of a layout on one Redis, with HAProxy in front of those that have clients. */
async function startAll(layout: Layout) {
  const folder = mkdtempSync(join(tmpdir(), "uis-fleet-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const redis = await startRedis({ aof: "no" });
  onTestFinished(() => redis.remove());
  const env = { UIS_MASTER_KEY: randomBytes(32).toString("base64"), UIS_BOOTSTRAP_API_KEY: key };
  const state = { redis_url: redis.url, allow_volatile: true };
  const corePorts = layout === "fleet" ? [await freePort(), await freePort()] : [];
  const httpPorts = [await freePort(), await freePort()];
  const addresses = corePorts.map((port) => `127.0.0.1:${port}`);
  const member = async (name: string, config: object, ports: Record<string, string>): Promise<Member> => {
    const start = () => startServiceProcess({ folder: join(folder, name), config, env: { ...env, ...ports } });
    const one = { name, start, running: await start() };
    onTestFinished(() => one.running.kill());
    return one;
  };
  const cores: Member[] = [];
  const fronts: Member[] = [];
  for (const [i, port] of corePorts.entries()) {
    const config = { server: { role: "core", drain_delay: "1s" }, state, models, core: { token: coreToken } };
    cores.push(await member(`core-${i}`, config, { UIS_GRPC_PORT: String(port) }));
  }
  for (const [i, port] of httpPorts.entries()) {
    const gateway = { server: { role: "gateway", drain_delay: "2s" }, state, core: { addresses, token: coreToken } };
    const replica = { server: { drain_delay: "2s" }, state, models };
    const [name, config] = layout === "fleet" ? ["gateway", gateway] : ["replica", replica];
    fronts.push(await member(`${name}-${i}`, config, { PORT: String(port) }));
  }
  const http = `http://127.0.0.1:${await startHaproxy(folder, httpPorts)}`;
  return { cores, fronts, client: new ServiceClient(http, key) };
}

async function startHaproxy(folder: string, ports: readonly number[]): Promise<number> {
  const port = await freePort();
  const servers = ports.map((each, i) => `  server gateway-${i} 127.0.0.1:${each} check inter 300ms fall 1 rise 1`);
  const lines = [
    "defaults",
    "  mode http",
    "  timeout connect 2s",
    "  timeout client 60s",
    "  timeout server 60s",
    "  option redispatch",
    "  retries 3",
    "  retry-on conn-failure",
    "listen gateways",
    `  bind 127.0.0.1:${port}`,
    "  balance roundrobin",
    "  option httpchk GET /ready",
    ...servers,
  ];
  const file = join(folder, "haproxy.cfg");
  writeFileSync(file, `${lines.join("\n")}\n`);
  const haproxy = spawn("haproxy", ["-db", "-f", file], { stdio: "ignore" });
  onTestFinished(async () => {
    haproxy.kill("SIGKILL");
    if (haproxy.exitCode === null && haproxy.signalCode === null) await once(haproxy, "exit");
  });
  await eventually(async () => (await fetch(`http://127.0.0.1:${port}/ready`).catch(() => null))?.status === 200);
  return port;
}

/** Number of streams that run at the same time. */
const streamCallers = 4;
/** As in OpenAI's SDKs. */
const retriesMax = 2;
const retryPauseMs = 500;

/** Callers that send one call after the other until they are stopped. A unary call is retried after a lost connection or 5xx. */
function startLoad(client: ServiceClient) {
  const unary: string[] = [];
  const retried: string[] = [];
  const streams: StreamEnd[] = [];
  let isOver = false;
  const callOnce = async (): Promise<string> => {
    const answer = await client.chat("quick").catch((error: unknown) => ({ status: 0, text: String(error) }));
    return answer.status === 200 ? "200" : `${answer.status} ${answer.text}`;
  };
  const call = async (): Promise<string> => {
    for (let retries = 0; ; retries += 1) {
      const end = await callOnce();
      if (retries >= retriesMax || !/^[05]/.test(end)) return end;
      retried.push(end);
      await delay(retryPauseMs);
    }
  };
  const callers = [
    ...Array.from({ length: 8 }, async () => {
      while (!isOver) unary.push(await call());
    }),
    ...Array.from({ length: streamCallers }, async () => {
      while (!isOver) streams.push(await streamOnce(client));
    }),
  ];
  const stop = async (): Promise<void> => {
    isOver = true;
    await Promise.all(callers);
  };
  return { unary, retried, streams, stop };
}

interface StreamEnd {
  /** `error`: an error event. `lost`: the HTTP library reports a lost connection. `page`: an error of HAProxy, not a stream. */
  readonly kind: "complete" | "error" | "lost" | "page" | "silent";
  /** The last characters of an answer without an end. */
  readonly text?: string;
}

async function streamOnce(client: ServiceClient): Promise<StreamEnd> {
  let text = "";
  try {
    const reader = await client.stream("long");
    for (let part = await reader.read(); !part.done; part = await reader.read())
      text += Buffer.from(part.value).toString();
  } catch {
    return { kind: "lost" };
  }
  if (text.trimEnd().endsWith("data: [DONE]")) return { kind: "complete" };
  // HAProxy answers for a process that dies before its first byte.
  if (/^<html><body><h1>50[23] /.test(text)) return { kind: "page" };
  return text.includes('"code":"upstream_error"') ? { kind: "error" } : { kind: "silent", text: text.slice(-300) };
}

it.each<Layout>(["fleet", "replicas"])(
  "20 rolling restarts and killed processes lose no unary call behind HAProxy: %s (REL-10, REL-25)",
  async (layout) => {
    if (spawnSync("haproxy", ["-v"]).status !== 0) throw missingProgram("haproxy is not installed");
    const { cores, fronts, client } = await startAll(layout);
    const members = [...cores, ...fronts];
    const load = startLoad(client);
    /** Resolves when HAProxy and the gateways use all processes again. */
    const goesOn = async (): Promise<void> => {
      const before = load.unary.length;
      await eventually(() => load.unary.length > before + 100);
    };
    for (let i = 0; i < rounds(20); i += 1) {
      const member = members[i % members.length] as Member;
      expect(await member.running.stop(), member.name).toBe(0);
      member.running = await member.start();
      await goesOn();
    }
    const failures = () => load.unary.filter((end) => end !== "200");
    expect({ failed: failures(), retried: load.retried }).toEqual({ failed: [], retried: [] });
    expect({ broken: load.streams.filter(({ kind }) => kind !== "complete") }).toEqual({ broken: [] });

    const kill = async (member: Member): Promise<void> => {
      await member.running.kill();
      member.running = await member.start();
      await goesOn();
    };
    const endedAs = (...wanted: StreamEnd["kind"][]) => load.streams.filter(({ kind }) => wanted.includes(kind));
    const [core] = cores;
    if (core !== undefined) {
      await kill(core);
      // The gateway repeats unary calls, and ends streams of the killed core with an error event.
      expect({ retried: load.retried, cut: endedAs("lost", "page", "silent") }).toEqual({ retried: [], cut: [] });
    }
    // A killed process cannot send an event to its own clients: their connections break, which HTTP libraries report.
    await kill(fronts[0] as Member);
    await load.stop();
    expect(failures()).toEqual([]);
    expect(endedAs("silent")).toEqual([]);
    expect(endedAs("lost", "page").length).toBeLessThanOrEqual(streamCallers);
    expect(endedAs("error").length).toBeLessThanOrEqual(streamCallers);
    // The lease of a killed process's request ends within 65 s.
    const [settling] = members as [Member];
    await eventually(
      async () => (await settling.running.debugState()).live_leases === 0,
      "all requests settled",
      90_000,
    );
  },
  1_200_000,
);
