/**
 * The cost of state, in one run: requests per second with limits in Redis, and with the embedded file, over those
 * with state in memory; settlements per second of the embedded ledger; and whether a ledger affects the time to the
 * first token, as a paired comparison against two services with state in memory.
 *
 *   npm run bench -- state [--seconds 5 --repeats 3 --streams 300]
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { writeRandomGguf } from "../support/gguf/random-gguf.js";
import { temporaryFolder } from "./cleanup.js";
import { compareFirstTokens, type FirstTokenSides } from "./first-tokens.js";
import { median } from "./http-request.js";
import { load } from "./raw-client.js";
import { embeddedSettlements } from "./settlements.js";
import { type MeasuredService, type StateName, startRedis, startService } from "./state-services.js";

const serverCore = 0;
const otherCore = 1;
const connections = 32;
const settlementsAtOnce = 64;
/** The client may sleep, because Redis is on its core and must run when it has work. */
const staysAwake = false;
/** V8 continues to compile for about three seconds. */
const warmUpSeconds = 5;
/** Requests per second with limits in Redis over those with state in memory. */
const redisGate = 0.65;

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "5" },
    repeats: { type: "string", default: "3" },
    streams: { type: "string", default: "300" },
  },
});
const seconds = Number(values.seconds);
const repeats = Number(values.repeats);
const streams = Number(values.streams);

/** `again` is equal to `none`: the difference between these two is the noise of the measurement. */
const sides = { none: "none", again: "none", embedded: "embedded", redis: "redis" } as const satisfies Record<
  string,
  StateName
>;
type Side = keyof typeof sides;
const names = Object.keys(sides) as Side[];

async function perSecond(service: MeasuredService): Promise<{ rate: number; cpuUs: number }> {
  const before = service.process.cpuMs();
  const { answers, failures, seconds: took } = await load(service.port, service.chat, connections, seconds, staysAwake);
  if (failures > 0) throw new Error(`${failures} of ${answers} answers were not 200`);
  return { rate: answers / took, cpuUs: ((service.process.cpuMs() - before) * 1_000) / answers };
}

async function throughput(services: Readonly<Record<Side, MeasuredService>>): Promise<object> {
  // All services are loaded, so that they are equally warm when first tokens are measured.
  for (const side of names)
    await load(services[side].port, services[side].chat, connections, warmUpSeconds, staysAwake);
  const rows: Record<Side, { rate: number; cpuUs: number }>[] = [];
  for (let i = 0; i < repeats; i++) {
    const none = await perSecond(services.none);
    const redis = await perSecond(services.redis);
    const embedded = await perSecond(services.embedded);
    rows.push({ none, redis, embedded, again: await perSecond(services.again) });
  }
  const rounded = (side: Side) => ({
    requests_per_second: Math.round(median(rows.map((row) => row[side].rate))),
    cpu_us_per_request: Math.round(median(rows.map((row) => row[side].cpuUs))),
    over_none: Number(median(rows.map((row) => row[side].rate / row.none.rate)).toFixed(3)),
  });
  return Object.fromEntries(names.map((side) => [side, rounded(side)]));
}

/**
 * Measures the time to the first token of a model without latency, where it is only the round trip to a store, and of a
 * model that computes like a real one.
 */
async function firstTokens(services: Readonly<Record<Side, MeasuredService>>): Promise<object> {
  const sides = (model: "stream" | "computedStream"): FirstTokenSides => {
    const side = (name: Side) => ({ port: services[name].port, request: services[name][model] });
    return { none: side("none"), again: side("again"), embedded: side("embedded"), redis: side("redis") };
  };
  return {
    takes_no_time: await compareFirstTokens(sides("stream"), streams),
    computes: await compareFirstTokens(sides("computedStream"), streams),
  };
}

const folder = temporaryFolder("state");
const modelFile = join(folder, "generated.gguf");
await writeRandomGguf(modelFile, { layers: 6, heads: 8 });
const redis = await startRedis(join(folder, "redis"), otherCore);
const started = await Promise.all(
  names.map((name) => startService({ name, state: sides[name], folder, redisPort: redis.port, modelFile }, serverCore)),
);
const services = Object.fromEntries(names.map((name, i) => [name, started[i]])) as Record<Side, MeasuredService>;
try {
  const rates = (await throughput(services)) as { redis: { over_none: number } };
  const report = {
    node: process.version,
    connections,
    seconds,
    repeats,
    throughput: rates,
    first_token: await firstTokens(services),
    embedded_ledger: await embeddedSettlements(folder, settlementsAtOnce, seconds),
    redis_gate: redisGate,
  };
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  if (rates.redis.over_none < redisGate) {
    process.stderr.write(
      `with limits in Redis, the request rate is ${rates.redis.over_none} of that in memory, not ${redisGate}\n`,
    );
    process.exitCode = 1;
  }
} finally {
  await Promise.all(started.map((service) => service.process.stop()));
  await redis.stop();
}
