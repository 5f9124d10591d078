/**
 * The service as a gateway: in front of a mock OpenAI-compatible upstream, with its state in memory, in the embedded file and in
 * Redis, against a bare pass-through of node:http and undici. One core for the gateway, another for the upstream and the
 * load client, which are C programs. All sides run at the same time and are loaded in turns of a second: a ratio is one of
 * two neighbours, and the report has the median. The gates apply to state in memory. Any failed answer ends the run.
 *
 * The service always requests a stream from its upstream. The pass-through forwards the client's request, so that the
 * upstream answers it with one JSON text for `unary`: both read the same text, but the service reads it from events.
 *
 * With `--peers` other gateways are measured, too, if this machine can install them (gateway-peers.ts).
 *
 *   npm run bench -- gateway [--seconds 1 --repeats 9 --warm-up 4 --hold 6] [--peers]
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { temporaryFolder } from "./cleanup.js";
import { addedLatency, type Bench, baseline, pacedMemory, throughput, warmUp } from "./gateway-measures.js";
import { measurePeers } from "./gateway-peers.js";
import { gatewaySettings, type Side, type StateName, startPassThrough, startService } from "./gateway-sides.js";
import { checkAnswer, pacedStreams, singleRequest, type WorkName, workModels, works } from "./gateway-works.js";
import { NativePrograms } from "./native-programs.js";
import { startRedis } from "./state-services.js";

const gatewayCore = 0;
const loadCore = 1;

/** Printed with the figures of `unary`. */
const unaryNote =
  "the service reads its answer from a stream of the upstream: the text is one event, in unary_from_200_chunks 200 events; " +
  "the pass-through forwards a whole JSON answer";

/** Bounds that fail the run, and aims. They are ratios to the pass-through; those of memory are in MiB. */
const gates = {
  unary: { least: 0.45, aim: 0.65 },
  streams_at_once: { least: 0.5, aim: 1 },
  embeddings_base64: { least: 0.5, aim: 0.8 },
  added_p50: { most: 1.6, aim: 1.4 },
  paced_streams_rss_mb: { most: 190, aim: 160 },
} as const;

const { values } = parseArgs({
  options: {
    /** Counted time of a turn. */
    seconds: { type: "string", default: "1" },
    repeats: { type: "string", default: "9" },
    /** Seconds for each side and kind of request. */
    "warm-up": { type: "string", default: "4" },
    /** Seconds for which all paced streams are open. */
    hold: { type: "string", default: "6" },
    peers: { type: "boolean", default: false },
  },
});
const turnSeconds = Number(values.seconds);
const repeats = Number(values.repeats);
const warmUpSeconds = Number(values["warm-up"]);
const holdSeconds = Number(values.hold);

if (!existsSync("dist/app/cli.js")) throw new Error("there is no build: run `npm run build` first");
const folder = temporaryFolder("gateway-bench");
const cleanUps: (() => Promise<void> | void)[] = [];

/** Ends all processes, the last one first. */
async function cleanUp(): Promise<void> {
  for (let next = cleanUps.pop(); next !== undefined; next = cleanUps.pop()) await next();
}

async function startSides(upstreamPort: number, settings: object): Promise<Bench["sides"]> {
  const sides = new Map<string, Side>();
  const add = (name: string, side: Side): void => {
    sides.set(name, side);
    cleanUps.push(() => side.process.stop());
  };
  add(baseline, await startPassThrough(upstreamPort, gatewayCore));
  const states: StateName[] = ["memory", "file"];
  let redisPort: number | null = null;
  if (spawnSync("redis-server", ["--version"]).status === 0) {
    const redis = await startRedis(join(folder, "redis-data"), loadCore);
    cleanUps.push(() => redis.stop());
    redisPort = redis.port;
    states.push("redis");
  } else process.stderr.write("redis-server is not installed: the service is not measured with Redis\n");
  for (const state of states) add(state, await startService({ state, folder, redisPort }, settings, gatewayCore));
  return sides;
}

async function measure(): Promise<void> {
  const programs = new NativePrograms(folder, loadCore);
  const upstream = await programs.startUpstream(workModels);
  cleanUps.push(() => upstream.stop());
  const upstreamPort = Number(upstream.ready["port"]);
  const settings = gatewaySettings(upstreamPort);
  const bench: Bench = { programs, upstream, sides: await startSides(upstreamPort, settings), turnSeconds, repeats };
  const allWorks = Object.entries(works) as [WorkName, (typeof works)[WorkName]][];
  for (const [name, side] of bench.sides) {
    for (const work of [...Object.values(works), pacedStreams]) await checkAnswer(name, work, side);
    // At once: V8 fixes the size of a class's objects at the seventh. If garbage collection had removed the traces of these
    // six, all later requests and responses of the process would be dictionaries, slower by a tenth.
    await warmUp({ ...bench, sides: new Map([[name, side]]) }, singleRequest, warmUpSeconds);
  }
  // Memory is measured first, because a process returns memory late or never after a load.
  const paced = await pacedMemory(bench, holdSeconds);
  const rates: Partial<Record<WorkName, Awaited<ReturnType<typeof throughput>>>> = {};
  for (const [name, work] of allWorks) {
    await warmUp(bench, work, warmUpSeconds);
    rates[name] = await throughput(bench, work);
  }
  const added = await addedLatency(bench);
  const peers = values.peers
    ? await measurePeers(bench, { folder, core: gatewayCore, warmUpSeconds, holdSeconds })
    : {};
  const reached: Record<keyof typeof gates, number | undefined> = {
    unary: rates.unary?.["memory"]?.over_pass_through,
    streams_at_once: rates.streams_at_once?.["memory"]?.over_pass_through,
    embeddings_base64: rates.embeddings_base64?.["memory"]?.over_pass_through,
    added_p50: added["memory"]?.over_pass_through,
    paced_streams_rss_mb: paced["memory"]?.rss_mb,
  };
  const report = {
    node: process.version,
    seconds: turnSeconds,
    repeats,
    unary_note: unaryNote,
    throughput: rates,
    one_request_at_a_time: added,
    [`paced_streams_${pacedStreams.connections}`]: paced,
    ...(values.peers ? { peers } : {}),
    reached,
    gates,
  };
  process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
  for (const [name, gate] of Object.entries(gates) as [keyof typeof gates, { least?: number; most?: number }][]) {
    const { least = Number.NEGATIVE_INFINITY, most = Number.POSITIVE_INFINITY } = gate;
    const value = reached[name] ?? Number.NaN;
    if (value >= least && value <= most) continue;
    process.stderr.write(
      `${name} is ${value}; it must be at ${gate.least === undefined ? `most ${most}` : `least ${least}`}\n`,
    );
    process.exitCode = 1;
  }
}

try {
  await measure();
} finally {
  await cleanUp();
}
