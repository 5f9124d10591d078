/**
 * Measures the needs of requests on this machine: processor time of workers and of Redis, commands, bytes and memory of
 * Redis for a request, memory of an open stream, and the sizes of stored records. Each row has 1, 2 or 4 workers on
 * the same cores; the client and Redis have the last ones. Prints tables and the formula of docs/capacity.md with these
 * figures. Needs Linux, two cores, redis-server and a build (`npm run build`).
 *
 *   npm run bench -- scale [--seconds 5 --repeats 3 --streams 1000 --keys 2000] [--workers 1,2,4]
 *                          [--tokens 200 --duration 10 --stored-keys 10000]
 */
import { execFileSync } from "node:child_process";
import { cpus, release, totalmem } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Redis } from "ioredis";
import { version } from "../../src/contract/version.js";
import { temporaryFolder } from "./cleanup.js";
import { type Capacity, capacityFor, redisUse, type Terms, workersOfReplica, workerUse } from "./scale-formula.js";
import {
  clientShareOf,
  createKeys,
  isSettled,
  type LoadRow,
  measureLoad,
  measureRecords,
  measureStreams,
} from "./scale-measures.js";
import {
  chatOf,
  clientCore,
  cores,
  hasWorkers,
  longPrompt,
  redisCore,
  startScaled,
  tokensOfStream,
} from "./scale-service.js";
import { startRedis } from "./state-services.js";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "5" },
    repeats: { type: "string", default: "3" },
    streams: { type: "string", default: "1000" },
    keys: { type: "string", default: "2000" },
    workers: { type: "string", default: "1,2,4" },
    /** Load of the printed example: streamed tokens and seconds of an answer, and stored keys. */
    tokens: { type: "string", default: "200" },
    duration: { type: "string", default: "10" },
    "stored-keys": { type: "string", default: "10000" },
  },
});
const [seconds, repeats] = [Number(values.seconds), Number(values.repeats)];
/** The service has all cores before the one of Redis. */
const serviceCores = redisCore;
const names = {
  one: "1 worker",
  idle: "1 worker, 1 connection",
  oneAccount: "1 worker, one account",
  streamed: `1 worker, ${tokensOfStream} streamed tokens`,
};
const exampleRates = [10, 1_000, 10_000];
/** With more workers than cores, rows would measure the scheduler. Two workers are always measured: see docs/capacity.md. */
const counts = values.workers
  .split(",")
  .map(Number)
  .filter((count) => count <= Math.max(2, serviceCores));
/** Enough accounts to use all shards, as in a service with many accounts: a script call has the requests of one shard. */
const accounts = 64;

if (cores < 2) throw new Error("two cores are needed: one for the service, one for Redis and the client");
execFileSync("taskset", ["-a", "-p", "-c", String(clientCore), String(process.pid)], { stdio: "ignore" });
const folder = temporaryFolder("scale");
const server = await startRedis(join(folder, "redis"), redisCore);
const redis = new Redis(server.port, "127.0.0.1");
const rows: LoadRow[] = [];
const longRows: LoadRow[] = [];
let secrets: readonly string[] = [];
let workerBytes = 0;
let streamBytes = 0;
let records = { key: 0, active: 0, usageRow: 0 };
try {
  // A rewrite of the append-only file would hide the bytes that a request adds to it.
  await redis.config("SET", "auto-aof-rewrite-percentage", "0");
  for (const workers of counts) {
    process.stderr.write(`measuring ${nameOf(workers)}\n`);
    const service = await startScaled({ workers, folder, redisPort: server.port });
    try {
      if (secrets.length === 0) secrets = await createKeys(service, "load", accounts);
      const measure = async (what: string, requests: readonly Buffer[], connections?: number): Promise<LoadRow> => {
        const row = await measureLoad(service, redis, { what, requests, connections, seconds, repeats });
        rows.push(row);
        return row;
      };
      const chats = secrets.map((secret) => chatOf("chat", secret));
      if (workers === 1) {
        workerBytes = service.rssBytes();
        streamBytes = await measureStreams(service, Number(values.streams));
        await measure(names.idle, chats, 1);
        await measure(names.oneAccount, [chatOf("chat")]);
        await measure(
          names.streamed,
          secrets.map((secret) => chatOf("stream", secret)),
        );
      }
      const row = await measure(nameOf(workers), chats);
      if (workers === 1) records = await measureRecords(service, redis, Number(values.keys), row.redis.memoryBytes);
    } finally {
      await service.stop();
    }
  }
  const onAll = counts.filter((count) => count <= cores).map((workers) => ({ workers, on: "all" }) as const);
  for (const { workers, on } of [{ workers: 1, on: "first" } as const, ...onAll]) {
    const service = await startScaled({ workers, folder, redisPort: server.port, on });
    try {
      const plan = {
        what: `${nameOf(workers)}, ${on === "first" ? "one core" : "all cores"}`,
        requests: [chatOf("long")],
        seconds,
        repeats,
      };
      longRows.push(await measureLoad(service, redis, plan));
    } finally {
      await service.stop();
    }
  }
} finally {
  redis.disconnect();
  await server.stop();
}

const rowOf = (what: string): LoadRow => {
  const found = rows.find((row) => row.what === what);
  if (found === undefined) throw new Error(`there is no row ${what}: --workers needs 1`);
  return found;
};
const [one, streamed] = [rowOf(names.one), rowOf(names.streamed)];
const terms: Terms = {
  requestUs: one.cpuUs,
  tokenUs: Math.max(0, streamed.cpuUs - one.cpuUs) / tokensOfStream,
  redisUs: one.redis.cpuUs,
  redisBytes: one.redis.inBytes + one.redis.outBytes,
  markerBytes: one.redis.memoryBytes,
  fileBytes: one.redis.fileBytes,
  keyBytes: records.key,
  activeBytes: records.active,
  usageRowBytes: records.usageRow,
  workerBytes,
  streamBytes,
};
process.stdout.write(`${[headingOf(), loadTable(), longTable(), recordTable(), exampleTable()].join("\n\n")}\n`);

function nameOf(workers: number): string {
  return `${workers} ${workers === 1 ? "worker" : "workers"}`;
}

function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  return [head, head.map(() => "---"), ...body].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

function loadTable(): string {
  const head = ["", "requests/s", "worker CPU", "per CPU second", "over 1 worker", "client's core", "Redis CPU"];
  const perCpuSecond = ({ cpuUs }: LoadRow): number => 1_000_000 / cpuUs;
  const body = rows.map((row) => [
    isSettled(row) ? row.what : `${row.what} (Redis too slow: not settled)`,
    row.perSecond.toFixed(0),
    `${row.cpuUs.toFixed(0)} µs`,
    perCpuSecond(row).toFixed(0),
    row.what.includes(",") ? "" : (perCpuSecond(row) / perCpuSecond(one)).toFixed(2),
    `${(100 * clientShareOf(row)).toFixed(0)} %`,
    `${row.redis.cpuUs.toFixed(0)} µs`,
  ]);
  const redisHead = [
    "of Redis, per request",
    "scripts",
    "commands",
    "bytes in",
    "bytes out",
    "memory",
    "file",
    "HTTP in",
    "HTTP out",
  ];
  const redisBody = rows.map(({ what, redis: each, inBytes, outBytes }) => [
    what,
    each.scripts.toFixed(2),
    each.commands.toFixed(1),
    ...[each.inBytes, each.outBytes, each.memoryBytes, each.fileBytes, inBytes, outBytes].map((bytes) =>
      bytes.toFixed(0),
    ),
  ]);
  return `${table(head, body)}\n\n${table(redisHead, redisBody)}`;
}

/** Requests whose processor time is the workers' own: the client and Redis leave them nearly all of the machine. */
function longTable(): string {
  const title = `Prompts of ${longPrompt / 1_000} kB. The garbage collection of a worker uses a second core if it may:`;
  const body = longRows.map((row) => [
    row.what,
    row.perSecond.toFixed(0),
    (row.perSecond / (longRows[0] ?? row).perSecond).toFixed(2),
    `${(row.cpuUs / 1_000).toFixed(2)} ms`,
    `${(100 * clientShareOf(row)).toFixed(0)} %`,
  ]);
  return `${title}\n\n${table(["", "requests/s", "over one core", "worker CPU", "client's core"], body)}`;
}

function recordTable(): string {
  const kB = (bytes: number): string => `${(bytes / 1_000).toFixed(2)} kB`;
  return table(
    ["memory", ""],
    [
      ["of a worker without load", `${(workerBytes / 1_000_000).toFixed(0)} MB`],
      ["of a worker, an open stream", kB(streamBytes)],
      ["of Redis, an API key", kB(records.key)],
      ["of Redis, a key in use", kB(records.active)],
      ["of Redis, a row of usage", kB(records.usageRow)],
      ["of Redis, a settled request, for 2 hours", kB(terms.markerBytes)],
    ],
  );
}

function exampleTable(): string {
  const keys = Number(values["stored-keys"]);
  const load = { tokens: Number(values.tokens), seconds: Number(values.duration), keys, usageRows: keys * 1_000 };
  const columns = exampleRates.map((perSecond): Capacity => capacityFor(terms, { ...load, perSecond }));
  const line = (what: string, of: (capacity: Capacity) => string): string[] => [what, ...columns.map(of)];
  const title = `Requests a second with ${load.tokens} streamed tokens in ${load.seconds} s, ${keys} keys with 1,000 rows of usage each, workers ${100 * workerUse} % and Redis ${100 * redisUse} % busy:`;
  const body = [
    line("workers", ({ workers }) => String(workers)),
    line(`replicas of ${workersOfReplica} workers, one to spare`, ({ replicas }) => String(replicas)),
    line("Redis, cores", ({ redisCores }) => redisCores.toFixed(2)),
    line("Redis", ({ redisMasters }) => {
      if (redisMasters === null) return "more than one cluster";
      return redisMasters === 1 ? "one server (Sentinel)" : `Cluster of ${redisMasters} masters`;
    }),
    line("Redis, memory", ({ redisMemoryBytes }) => `${(redisMemoryBytes / 1e9).toFixed(1)} GB`),
    line(
      "Redis, append-only file",
      ({ redisFileBytesPerSecond }) => `${(redisFileBytesPerSecond / 1e6).toFixed(2)} MB/s`,
    ),
    line("Redis, network", ({ redisBitsPerSecond }) => `${(redisBitsPerSecond / 1e6).toFixed(1)} Mbit/s`),
    line("all workers, memory", ({ memoryBytes }) => `${(memoryBytes / 1e9).toFixed(1)} GB`),
  ];
  return `${title}\n\n${table(["", ...exampleRates.map((rate) => `${rate}/s`)], body)}`;
}

/** The version, the machine and the day. */
function headingOf(): string {
  const [cpu] = cpus();
  const memory = `${Math.round(totalmem() / 2 ** 30)} GiB`;
  const machine = `${cores} x ${cpu?.model.trim() ?? "unknown processor"}, ${memory}, Linux ${release()}`;
  const workers = hasWorkers ? "`server.workers`" : "a process for each worker";
  const where = `service on ${serviceCores} of ${cores} cores`;
  return `## Scale: version ${version}, Node ${process.version}, ${machine}, ${new Date().toISOString().slice(0, 10)}; ${workers}, ${where}`;
}
