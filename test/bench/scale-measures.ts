/** Measures the costs of a request, of an open stream and of a record in Redis. */
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { Redis } from "ioredis";
import { median } from "./http-request.js";
import { load } from "./raw-client.js";
import { type RedisFigures, readRedis, redisCosts } from "./redis-figures.js";
import { chatOf, type ScaledService } from "./scale-service.js";

/** Connections per worker: with fewer, fewer requests share a script call, and each of them costs more. */
const loadedConnections = 32;
/** V8 continues to compile for about three seconds. */
const warmUpSeconds = 4;
/** The client may sleep: on a machine with few cores it shares one with Redis, which must run when it has work. */
const staysAwake = false;

/** Costs of one request, at full load unless the row says otherwise. */
export interface LoadRow {
  readonly what: string;
  readonly perSecond: number;
  /** Processor time of all workers together. */
  readonly cpuUs: number;
  readonly clientCpuUs: number;
  readonly redis: RedisFigures;
  /** Bytes of HTTP: the request, and the answer with its headers. */
  readonly inBytes: number;
  readonly outBytes: number;
}

export interface LoadPlan {
  readonly what: string;
  /** Requests that are sent in turn. */
  readonly requests: readonly Buffer[];
  /** Connections to all workers together. Default: 32 for each worker. */
  readonly connections?: number | undefined;
  readonly seconds: number;
  readonly repeats: number;
}

/** Measures the load repeatedly and returns medians. Rejects when an answer is not 200. */
export async function measureLoad(service: ScaledService, redis: Redis, plan: LoadPlan): Promise<LoadRow> {
  const { ports, workers } = service;
  const connections = plan.connections ?? loadedConnections * workers;
  const each = Math.max(1, Math.floor(connections / ports.length));
  const run = async (seconds: number) => {
    const results = await Promise.all(ports.map((port) => load(port, plan.requests, each, seconds, staysAwake)));
    const answers = results.reduce((sum, result) => sum + result.answers, 0);
    const failures = results.reduce((sum, result) => sum + result.failures, 0);
    if (failures > 0 || answers === 0) throw new Error(`${failures} of ${answers} answers were not 200`);
    const took = Math.max(...results.map((result) => result.seconds));
    return { answers, perSecond: answers / took, bytes: results.reduce((sum, result) => sum + result.bytes, 0) };
  };
  await run(Math.min(warmUpSeconds, 4 * plan.seconds));
  const rows: LoadRow[] = [];
  for (let i = 0; i < plan.repeats; i++) {
    const [cpuBefore, clientBefore, redisBefore] = [service.cpuMs(), process.cpuUsage(), await readRedis(redis)];
    const { answers, perSecond, bytes } = await run(plan.seconds);
    const client = process.cpuUsage(clientBefore);
    rows.push({
      what: plan.what,
      perSecond,
      cpuUs: ((service.cpuMs() - cpuBefore) * 1_000) / answers,
      clientCpuUs: (client.user + client.system) / answers,
      redis: redisCosts(redisBefore, await readRedis(redis), answers),
      inBytes: plan.requests[0]?.length ?? 0,
      outBytes: bytes / answers,
    });
  }
  const byRate = rows.toSorted((a, b) => a.perSecond - b.perSecond);
  const middle = byRate[byRate.length >> 1];
  if (middle === undefined) throw new Error("a row needs one repeat or more");
  return { ...middle, cpuUs: median(rows.map(({ cpuUs }) => cpuUs)) };
}

/** Resident memory of the workers for each open stream that has its first token and waits for the next. */
export async function measureStreams(service: ScaledService, streams: number): Promise<number> {
  const request = chatOf("held");
  const open = async (count: number): Promise<readonly Socket[]> => {
    const sockets: Socket[] = [];
    for (let at = 0; at < count; at++)
      sockets.push(await openStream(service.ports[at % service.ports.length] ?? 0, request));
    return sockets;
  };
  // The first streams also load code and fill pools, so they are not counted.
  const first = await open(Math.ceil(streams / 10));
  await delay(1_000);
  const before = service.rssBytes();
  const others = await open(streams);
  await delay(1_000);
  const bytes = (service.rssBytes() - before) / streams;
  for (const socket of [...first, ...others]) socket.destroy();
  return Math.max(0, bytes);
}

function openStream(port: number, request: Buffer): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(request));
    let text = "";
    socket.on("data", (data: Buffer) => {
      text += data.toString("latin1");
      if (!text.includes("data: ")) return;
      if (text.startsWith("HTTP/1.1 200")) resolve(socket);
      else reject(new Error(`no stream: ${text.slice(0, 200)}`));
    });
    socket.once("error", reject);
  });
}

/** Bytes of Redis memory. */
export interface RecordSizes {
  /** An API key in an account of its own that has not sent a request. */
  readonly key: number;
  /** Bytes that the first request of a key adds: windows of limits, sums, and usage of the hour and the day. */
  readonly active: number;
  /** Bytes that the first request for another model adds: one row of usage by hour and one by day. */
  readonly usageRow: number;
}

const requestsAtOnce = 16;

/** Secrets of new keys, each in an account of its own. */
export async function createKeys(service: ScaledService, name: string, count: number): Promise<readonly string[]> {
  const secrets: string[] = [];
  await inParallel(count, async (number) => {
    const method = "unified.admin.v1.ApiKeyService/CreateApiKey";
    const key = { name: `${name} ${number}`, scope: "SCOPE_READ_WRITE", account: `${name}-${number}` };
    secrets.push(String((await service.rpc(method, key))["secret"]));
  });
  return secrets;
}

/** Measures the sizes of records. `marker` is the bytes that every settled request leaves in Redis for two hours. */
export async function measureRecords(
  service: ScaledService,
  redis: Redis,
  keys: number,
  marker: number,
): Promise<RecordSizes> {
  const memory = async (): Promise<number> => {
    // Requests are settled before their last byte, and their batches end a moment later.
    await delay(500);
    return (await readRedis(redis)).memoryBytes;
  };
  const empty = await memory();
  const secrets = await createKeys(service, "measured", keys);
  const created = await memory();
  const port = service.ports[0] ?? 0;
  await inParallel(keys, (number) => sendOnce(port, chatOf("chat", secrets[number])));
  const active = await memory();
  await inParallel(keys, (number) => sendOnce(port, chatOf("other", secrets[number])));
  const rows = await memory();
  return {
    key: (created - empty) / keys,
    active: Math.max(0, (active - created) / keys - marker),
    usageRow: Math.max(0, (rows - active) / keys - marker) / 2,
  };
}

async function inParallel(count: number, run: (number: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const turn = async (): Promise<void> => {
    while (next < count) await run(next++);
  };
  await Promise.all(Array.from({ length: requestsAtOnce }, turn));
}

async function sendOnce(port: number, request: Buffer): Promise<void> {
  const { failures, answers } = await load(port, request, 1, 0, staysAwake);
  if (failures > 0 || answers !== 1) throw new Error(`${failures} of ${answers} answers were not 200`);
}

/**
 * Whether Redis settled the requests. Where it answers too slowly, requests are admitted without it and settled later, and its
 * figures are too low. Each settled request leaves one key; those of windows may expire meanwhile.
 */
export const isSettled = ({ redis }: LoadRow): boolean => redis.keys > 0.95;

export const clientShareOf = ({ clientCpuUs, perSecond }: LoadRow): number => (clientCpuUs * perSecond) / 1_000_000;
