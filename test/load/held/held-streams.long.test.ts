import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { connectionsWithin, openFilesLimit } from "../../../src/app/process/open-files.js";
import { eventually } from "../../support/eventually.js";
import { type SeparateHost, type SeparateHosts, startSeparateHosts } from "../../support/separate-hosts.js";
import { ServiceFolder, type ServiceProcess } from "../../support/service-process.js";
import { firstTokenMs, type HeldPlan, holdStreams } from "./held-clients.js";

interface Case {
  readonly protocol: HeldPlan["protocol"];
  readonly count: number;
  /** Streams over gRPC beside them, 100 to a connection. */
  readonly others: number;
  /** `limits.stall`, longer than it takes to open the streams. */
  readonly stallS: number;
  /** Maximum growth of the resident memory for each stream. */
  readonly bytesMax: number;
}

const streams = 10_000;
/** As many as this machine's limit of open files allows beside a few healthy clients. The other streams share connections. */
const connections = Math.min(streams, connectionsWithin(openFilesLimit()) - 64);
const cases: readonly Case[] = [
  // 400 MB for 10,000 streams.
  { protocol: "sse", count: connections, others: streams - connections, stallS: 30, bytesMax: 40_000 },
  // The streams themselves need as little, but opening them costs more: V8 collects the garbage of their messages late.
  { protocol: "grpc", count: 4_000, others: 0, stallS: 120, bytesMax: 200_000 },
];
const warmUpStreams = 500;
/** Five times the target for a machine with a free core. */
const openedMsMax = 300_000;
/** Time from `limits.stall` to the end of all streams. */
const releasedMsMax = 15_000;
/** Time from the end of the streams until most of their memory is given back. */
const givenBackMsMax = 45_000;
const slowdownMax = 2;
/** A shorter first token is noise. */
const firstTokenMsMin = 10;
/** Kernel buffers of a connection: with the default of 4 MiB, the kernel would take most of the answers. */
const socketBuffers = "4096 16384 65536";

const slots = 65_536;
const endless = { text: "one two three four five", tokens: 10_000_000, context_length: 100_000_000 };
const models = [
  { id: "endless", engine: "scripted", slots, scripted: endless },
  { id: "healthy", engine: "scripted", slots, scripted: { text: "one two three" } },
];
const unlimited = { requests_per_minute: 10_000_000, tokens_per_minute: 1_000_000_000_000 };

let network: SeparateHosts;
let served: ServiceFolder;
beforeAll(async () => {
  network = await startSeparateHosts(2);
});
beforeEach(async () => {
  served = await ServiceFolder.create();
});
afterEach(() => served.remove());
afterAll(() => network?.remove());

function hostAt(n: number): SeparateHost {
  const host = network.hosts[n];
  if (host === undefined) throw new Error(`there is no host ${n}`);
  for (const file of ["tcp_wmem", "tcp_rmem"]) {
    const [program = "", ...args] = host.under(["sh", "-c", `echo ${socketBuffers} > /proc/sys/net/ipv4/${file}`]);
    execFileSync(program, args);
  }
  return host;
}

function startOn(host: SeparateHost, stallS: number): Promise<ServiceProcess> {
  const server = { host: host.address, ops_host: host.address };
  const rate_limits = { default_key: unlimited, default_account: unlimited };
  return served.start(
    { server, models, rate_limits, limits: { stall: `${stallS}s` }, state: { durability: "none" } },
    // As in Node 20: Node 24 lets the young generation grow to 96 MiB under any load.
    { env: { LOG_LEVEL: "error" }, nodeArgs: ["--max-semi-space-size=16"], under: (command) => host.under(command) },
  );
}

async function held(service: ServiceProcess): Promise<number> {
  return (await service.debugState()).models.find(({ id }) => id === "endless")?.busy ?? 0;
}

/** Waits until `count` streams run and the engine produces nothing for them, because all wait for their readers. */
async function untilStill(service: ServiceProcess, count: number): Promise<void> {
  let produced = -1;
  await eventually(
    async () => {
      await delay(500);
      const before = produced;
      const model = (await service.debugState()).models.find(({ id }) => id === "endless");
      produced = model?.produced_tokens ?? 0;
      return model?.busy === count && produced === before;
    },
    "streams that wait for their readers",
    openedMsMax,
  );
}

it.each(cases)(
  "$count clients that never read their streams ($protocol) use little memory, slow no other down, and are disconnected (REL-1)",
  { timeout: 900_000 },
  async ({ protocol, count, others, stallS, bytesMax }) => {
    const clients = hostAt(1);
    const service = await startOn(hostAt(0), stallS);
    const { key, http: url } = service;
    const grpcPort = Number(service.line.grpc.split(":").at(-1));
    const port = protocol === "sse" ? service.port : grpcPort;
    const { hostname: host } = new URL(url);
    const plan: HeldPlan = { protocol, host, port, key, model: "endless", count: warmUpStreams };

    // The growth is measured from the heap after a smaller load, because the first load also grows caches.
    const warmUp = await holdStreams(plan, clients);
    await untilStill(service, warmUpStreams);
    await warmUp.end();
    await eventually(async () => (await held(service)) === 0, "the first streams end");
    await firstTokenMs(url, key, "healthy", 100);
    const aloneMs = await firstTokenMs(url, key, "healthy", 200);
    const before = service.rssBytes();
    const all = count + others;

    const stuck = await holdStreams({ ...plan, count }, clients);
    const stuckOthers = await holdStreams({ ...plan, protocol: "grpc", port: grpcPort, count: others }, clients);
    await untilStill(service, all);
    const stillAtMs = performance.now();
    const growth = service.rssBytes() - before;
    const besideMs = await firstTokenMs(url, key, "healthy", 200);
    expect(await held(service), "no stream has ended").toBe(all);

    // Only the service shows it: a client that does not read notices neither the end nor the reset of its stream.
    await eventually(async () => (await held(service)) === 0, "an end of all streams", stallS * 1_000 + releasedMsMax);
    const endedAtMs = performance.now();
    // The memory must come back without further requests.
    await eventually(() => service.rssBytes() - before < growth / 2, "memory that is given back", givenBackMsMax);
    const figures = {
      streams: all,
      bytes_of_stream: Math.round(growth / all),
      growth_mb: Math.round(growth / 1e6),
      released_s: Math.round((endedAtMs - stillAtMs) / 1_000),
      memory_given_back_s: Math.round((performance.now() - stillAtMs) / 1_000),
      first_token_alone_ms: aloneMs,
      first_token_beside_ms: besideMs,
    };
    process.stdout.write(`${protocol}: ${JSON.stringify(figures)}\n`);
    mkdirSync("test-results/figures", { recursive: true });
    const file = `test-results/figures/held-streams-${protocol}-${process.version}.json`;
    writeFileSync(file, `${JSON.stringify(figures, null, 2)}\n`);
    await Promise.all([stuck.end(), stuckOthers.end()]);

    expect(growth).toBeLessThan(bytesMax * all);
    expect(besideMs).toBeLessThan(Math.max(aloneMs, firstTokenMsMin) * slowdownMax);
    await eventually(async () => {
      const { requests, connections } = await service.debugState();
      return requests.running + connections.http === 0;
    }, "an end of all connections");
  },
);
