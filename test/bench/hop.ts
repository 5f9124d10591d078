/**
 * Measures what a gateway adds: processor time and latency of a chat through a gateway and a core, relative to one process
 * of role all. All processes of the service share one core and one Redis; the client has the other core. Turns alternate,
 * because a shared machine changes its speed, and the table has medians. Scripted engine, short chat. Needs Linux, two cores,
 * redis-server and a build (`npm run build`).
 *
 *   npm run bench -- hop [--seconds 2 --repeats 5 --warm-up 5]
 */
import { execFileSync } from "node:child_process";
import { cpus, release } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { version } from "../../src/contract/version.js";
import { temporaryFolder } from "./cleanup.js";
import { httpRequest, median } from "./http-request.js";
import type { PinnedProcess } from "./pinned-process.js";
import { load } from "./raw-client.js";
import { apiKey, portOf, startOnRedis } from "./scale-service.js";
import { startRedis } from "./state-services.js";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "2" },
    repeats: { type: "string", default: "5" },
    "warm-up": { type: "string", default: "5" },
  },
});
const [seconds, repeats, warmUpSeconds] = [Number(values.seconds), Number(values.repeats), Number(values["warm-up"])];
const [serviceCore, clientCore] = [0, 1];
const tokens = 200;
const coreToken = "token-of-the-measured-core";

/** The processes that serve a request, and the port of the one that the client calls. */
interface Layout {
  readonly port: number;
  readonly processes: readonly PinnedProcess[];
}

interface Turn {
  /** Processor time of a request in each process of the layout, in microseconds. */
  readonly cpuUs: readonly number[];
  /** Duration of a request in milliseconds. */
  readonly ms: number;
}

const folder = temporaryFolder("hop");
execFileSync("taskset", ["-a", "-p", "-c", String(clientCore), String(process.pid)], { stdio: "ignore" });
const redis = await startRedis(join(folder, "redis"), clientCore);
const started: PinnedProcess[] = [];

async function start(name: string, settings: object): Promise<PinnedProcess> {
  const service = await startOnRedis({ name, folder, redisPort: redis.port, core: serviceCore, settings });
  started.push(service);
  return service;
}

async function measure({ port, processes }: Layout, request: Buffer, connections: number, of: number): Promise<Turn> {
  const before = processes.map((each) => each.cpuMs());
  const { answers, failures, seconds: took } = await load(port, request, connections, of);
  if (failures > 0 || answers === 0) throw new Error(`${failures} of ${answers} answers were not 200`);
  const cpuUs = processes.map((each, at) => ((each.cpuMs() - (before[at] ?? 0)) * 1_000) / answers);
  return { cpuUs, ms: (took * 1_000 * connections) / answers };
}

/** A row of the table, from turns of both layouts one after the other. */
async function rowOf(what: string, request: Buffer, connections: number, all: Layout, roles: Layout): Promise<string> {
  for (const layout of [all, roles]) await measure(layout, request, connections, warmUpSeconds);
  const turns: (readonly [Turn, Turn])[] = [];
  for (let turn = 0; turn < repeats; turn += 1) {
    turns.push([
      await measure(all, request, connections, seconds),
      await measure(roles, request, connections, seconds),
    ]);
  }
  const middle = (of: (one: Turn, two: Turn) => number): number => median(turns.map(([one, two]) => of(one, two)));
  const us = (number: number): string => `${number.toFixed(0)} µs`;
  const [own = 0, gateway = 0, core = 0] = [
    middle(({ cpuUs }) => cpuUs[0] ?? 0),
    middle((_, { cpuUs }) => cpuUs[0] ?? 0),
    middle((_, { cpuUs }) => cpuUs[1] ?? 0),
  ];
  const added = middle((one, two) => (two.cpuUs[0] ?? 0) + (two.cpuUs[1] ?? 0) - (one.cpuUs[0] ?? 0));
  const latency = middle((one, two) => two.ms - one.ms);
  const cells = [what, us(own), us(gateway), us(core), us(added), connections === 1 ? `${latency.toFixed(2)} ms` : ""];
  return `| ${cells.join(" | ")} |`;
}

try {
  const scripted = { engine: "scripted", slots: 1_024 };
  const text = "one two three four five";
  const models = [
    { id: "chat", ...scripted, scripted: { text } },
    { id: "stream", ...scripted, scripted: { text, tokens } },
  ];
  const one = await start("all", { models });
  const core = await start("core", { server: { role: "core" }, core: { token: coreToken }, models });
  const addresses = [String(core.ready["grpc"])];
  const gateway = await start("gateway", { server: { role: "gateway" }, core: { addresses, token: coreToken } });
  const all: Layout = { port: portOf(one), processes: [one] };
  const roles: Layout = { port: portOf(gateway), processes: [gateway, core] };
  const messages = [{ role: "user", content: "Say the five words." }];
  const unary = httpRequest("/v1/chat/completions", apiKey, { model: "chat", messages });
  const streamed = httpRequest("/v1/chat/completions", apiKey, { model: "stream", messages, stream: true });
  const rows = [
    await rowOf("a chat, 32 connections", unary, 32, all, roles),
    await rowOf("a chat, 1 connection", unary, 1, all, roles),
    await rowOf(`a chat of ${tokens} streamed tokens, 32 connections`, streamed, 32, all, roles),
  ];
  const [cpu] = cpus();
  const heading = `## Hop: version ${version}, Node ${process.version}, ${cpu?.model.trim()}, Linux ${release()}, ${new Date().toISOString().slice(0, 10)}`;
  const head = "| processor time of a request | role all | gateway | core | added | added latency |";
  process.stdout.write(`${heading}\n\n${head}\n| --- | --- | --- | --- | --- | --- |\n${rows.join("\n")}\n`);
} finally {
  await Promise.all(started.map((service) => service.stop()));
  await redis.stop();
}
