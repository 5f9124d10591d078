/**
 * The cost of webhooks: deliveries per second from the queue to a receiver that checks each signature, processor time and
 * stored bytes of a delivery, embedded and in Redis; the queue alone in Redis compared with BullMQ's jobs that do nothing;
 * and the cost of a request with endpoints (E-30), which needs a build (`npm run build`).
 *
 *   npm run bench -- webhooks [--deliveries 20000 --repeats 3 --seconds 3 --build dist]
 */

import { execFile, spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs, promisify } from "node:util";
import type { State } from "../../src/domain/service/state.js";
import { createSystemClock } from "../../src/lib/clock.js";
import { SecretBox } from "../../src/lib/crypto.js";
import { createWebhookSender } from "../../src/outbound/webhook-sender.js";
import { openEmbeddedState } from "../../src/state/embedded/state.js";
import { openRedisState } from "../../src/state/redis/state.js";
import { silentLog } from "../support/silent-log.js";
import { killAtExit, temporaryFolder } from "./cleanup.js";
import { claimAndFinish, dispatch, fileBytes, makeDeliveries, registerEndpoint } from "./delivery-measures.js";
import { eventCosts } from "./event-costs.js";
import { median } from "./http-request.js";
import { startPinned } from "./pinned-process.js";
import { startRedis } from "./state-services.js";

const serverCore = 0;
const otherCore = 1;
/** Minimum ratio of deliveries claimed and ended per second to BullMQ's jobs per second in the same run. */
const queueGate = 3;
const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

const { values } = parseArgs({
  options: {
    deliveries: { type: "string", default: "20000" },
    repeats: { type: "string", default: "3" },
    seconds: { type: "string", default: "3" },
    build: { type: "string", default: "dist" },
  },
});
const count = Number(values.deliveries);
const repeats = Number(values.repeats);
const seconds = Number(values.seconds);
const { build } = values;

interface OpenStore {
  readonly state: State;
  /** Size of all stored data. */
  bytes(): Promise<number>;
}

async function measure({ state, bytes }: OpenStore, receiverPort: number): Promise<object> {
  const box = new SecretBox(Buffer.alloc(32, 1));
  const sender = createWebhookSender({
    allowHttp: true,
    allowPrivateCidrs: ["127.0.0.1/32"],
    allowPorts: [],
    dnsServers: [],
  });
  await registerEndpoint(state, box, `http://127.0.0.1:${receiverPort}/`, secret);
  try {
    await makeDeliveries(state, "warm", 2_000);
    await dispatch(state, { box, sender, count: 2_000 });
    const before = await bytes();
    await makeDeliveries(state, "sent", count);
    const rate = await dispatch(state, { box, sender, count });
    return { ...rate, bytesPerDelivery: Math.round(((await bytes()) - before) / count) };
  } finally {
    sender.close();
    await state.close();
  }
}

/** Measures our queue, with the endpoint that `measure` created, and BullMQ in turn, because other load varies. */
async function queueAlone(redisPort: number, folder: string): Promise<{ ours: number; bullmq: number; ratio: number }> {
  const state = await openRedis(redisPort);
  const rounds: { ours: number; bullmq: number }[] = [];
  try {
    for (let round = 0; round < repeats; round += 1) {
      await makeDeliveries(state, `queue_${round}`, count);
      const ours = await claimAndFinish(state, count);
      rounds.push({ ours, bullmq: await bullJobs(redisPort, folder) });
    }
  } finally {
    await state.close();
  }
  const rounded = (side: "ours" | "bullmq"): number => Math.round(median(rounds.map((each) => each[side])));
  const ratio = median(rounds.map(({ ours, bullmq }) => ours / bullmq));
  return { ours: rounded("ours"), bullmq: rounded("bullmq"), ratio: Number(ratio.toFixed(2)) };
}

async function bullJobs(redisPort: number, folder: string): Promise<number> {
  const args = [join(folder, "jobs.mjs"), String(redisPort), String(count)];
  const running = promisify(execFile)(process.execPath, args);
  killAtExit(running.child);
  const { stdout } = await running;
  return (JSON.parse(stdout) as { jobs_per_second: number }).jobs_per_second;
}

function openRedis(port: number): Promise<State> {
  const url = `redis://127.0.0.1:${port}`;
  return openRedisState({ url, tls: null, log: silentLog, clock: createSystemClock(), allowVolatile: false });
}

async function redisBytes(port: number): Promise<number> {
  const { stdout } = await promisify(execFile)("redis-cli", ["-p", String(port), "info", "memory"]);
  return Number(/used_memory:(\d+)/.exec(stdout)?.[1] ?? 0);
}

/** A separate package, so that the product does not depend on it. */
function provideBull(): string {
  const folder = join(import.meta.dirname, "bullmq");
  if (!existsSync(join(folder, "node_modules"))) {
    const { status } = spawnSync("npm", ["ci", "--prefix", folder, "--ignore-scripts"], { stdio: "inherit" });
    if (status !== 0) throw new Error("BullMQ, which the queue is compared with, could not be installed");
  }
  return folder;
}

const bull = provideBull();
const folder = temporaryFolder("webhooks");
const redis = await startRedis(join(folder, "redis"), otherCore);
const program = join(import.meta.dirname, "webhook-receiver.ts");
const receiver = await startPinned(otherCore, ["--import", "tsx", program, secret], process.env);
const anyReceiver = await startPinned(otherCore, ["--import", "tsx", program], process.env);
try {
  const port = Number(receiver.ready["port"]);
  const dataDir = join(folder, "embedded");
  mkdirSync(dataDir);
  const embedded = {
    state: await openEmbeddedState({ dataDir, log: silentLog, clock: createSystemClock() }),
    bytes: async () => fileBytes(dataDir),
  };
  const report = {
    node: process.version,
    deliveries: count,
    embedded: await measure(embedded, port),
    redis: await measure({ state: await openRedis(redis.port), bytes: () => redisBytes(redis.port) }, port),
    requests: await eventCosts({
      ...{ build, folder, core: serverCore, seconds, repeats },
      receiverPort: Number(anyReceiver.ready["port"]),
    }),
    queue_per_second: await queueAlone(redis.port, bull),
    queue_gate: queueGate,
  };
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  if (report.queue_per_second.ratio < queueGate) {
    process.stderr.write(`the queue does ${report.queue_per_second.ratio} times BullMQ's; the gate is ${queueGate}\n`);
    process.exitCode = 1;
  }
} finally {
  await receiver.stop();
  await anyReceiver.stop();
  await redis.stop();
}
