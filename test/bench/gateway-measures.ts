import type { Side } from "./gateway-sides.js";
import { pacedChunksPerSecond, pacedStreams, requestOf, singleRequest, type Work } from "./gateway-works.js";
import { median } from "./http-request.js";
import type { LoadFigures, NativePrograms } from "./native-programs.js";
import type { PinnedProcess } from "./pinned-process.js";

/** The side that the others are compared with. */
export const baseline = "pass_through";

export interface Bench {
  readonly programs: NativePrograms;
  readonly upstream: PinnedProcess;
  /** The compared programs by name; all run on the same core and are loaded in turn. The first is the baseline. */
  readonly sides: ReadonlyMap<string, Side>;
  readonly turnSeconds: number;
  readonly repeats: number;
}

/** Time at the start of each turn that is not counted: connections are opened. */
const turnWarmUpSeconds = 0.2;
const mebibyte = 2 ** 20;
const rampSeconds = 2;
const memorySampleMs = 100;

interface Turn extends LoadFigures {
  /** Processor time of the side, in the whole turn. */
  readonly sideCpuMs: number;
  /** Share of their core that the upstream and the client used. Near 1 they are the bottleneck. */
  readonly loadCoreShare: number;
}

async function turn({ programs, upstream, turnSeconds }: Bench, name: string, side: Side, work: Work): Promise<Turn> {
  const before = { sideMs: side.process.cpuMs(), upstreamMs: upstream.cpuMs(), atMs: performance.now() };
  const { connections, chunks: stamps } = work;
  const timing = { rampSeconds: 0, warmUpSeconds: turnWarmUpSeconds, seconds: turnSeconds };
  const figures = await programs.load({
    side: name,
    port: side.port,
    request: requestOf(work, side),
    connections,
    stamps,
    ...timing,
  });
  const loadMs = figures.cpuMs + upstream.cpuMs() - before.upstreamMs;
  return {
    ...figures,
    sideCpuMs: side.process.cpuMs() - before.sideMs,
    loadCoreShare: loadMs / (performance.now() - before.atMs),
  };
}

/** Runs every side once per repetition, in an order that is reversed each time. Each row has the turns of one repetition. */
async function turns(
  bench: Bench,
  sides: ReadonlyMap<string, Side>,
  work: Work,
): Promise<readonly Map<string, Turn>[]> {
  const rows: Map<string, Turn>[] = [];
  for (let i = 0; i < bench.repeats; i += 1) {
    const row = new Map<string, Turn>();
    const order = i % 2 === 0 ? [...sides] : [...sides].toReversed();
    for (const [name, side] of order) row.set(name, await turn(bench, name, side, work));
    rows.push(row);
  }
  return rows;
}

export interface Throughput {
  /** Answers per second; for streams, chunks per second. */
  readonly per_second: number;
  readonly cpu_us_each: number;
  /** Latency of a whole answer; null if no answer both began and ended in the counted time of a turn. */
  readonly p50_ms: number | null;
  readonly p99_ms: number | null;
  readonly load_core_share: number;
  /** Median of the ratios of neighbouring turns; `spread` is the least and the greatest. */
  readonly over_pass_through: number;
  readonly spread: readonly [number, number];
  /** Ratio of processor time, which other load of the machine affects less. */
  readonly cpu_over_pass_through: number;
}

export async function throughput(bench: Bench, work: Work): Promise<Readonly<Record<string, Throughput>>> {
  const rows = await turns(bench, bench.sides, work);
  const unitsOf = ({ answers, chunks }: Turn): number => (work.chunks > 0 ? chunks : answers);
  const rateOf = (each: Turn): number => unitsOf(each) / each.seconds;
  // The uncounted time at the start of a turn has about the same rate.
  const cpuUsOf = (each: Turn): number =>
    (each.sideCpuMs * 1_000 * each.seconds) / (each.seconds + turnWarmUpSeconds) / unitsOf(each);
  const of = (name: string): Throughput => {
    const own = rows.map((row) => required(row, name));
    const ratios = rows.map((row) => rateOf(required(row, name)) / rateOf(required(row, baseline)));
    const figure = (value: (each: Turn) => number): number => median(own.map(value));
    return {
      per_second: Math.round(figure(rateOf)),
      cpu_us_each: rounded(figure(cpuUsOf), 1),
      p50_ms: toMs(figure(({ latencyUs }) => latencyUs.p50)),
      p99_ms: toMs(figure(({ latencyUs }) => latencyUs.p99)),
      load_core_share: rounded(
        figure(({ loadCoreShare }) => loadCoreShare),
        2,
      ),
      over_pass_through: rounded(median(ratios), 3),
      cpu_over_pass_through: rounded(
        median(rows.map((row) => cpuUsOf(required(row, name)) / cpuUsOf(required(row, baseline)))),
        2,
      ),
      spread: [rounded(Math.min(...ratios), 3), rounded(Math.max(...ratios), 3)],
    };
  };
  return Object.fromEntries([...bench.sides.keys()].map((name) => [name, of(name)]));
}

export interface AddedLatency {
  /** Median latency with one request at a time; `added_p50_us` is without the upstream's own latency. */
  readonly p50_us: number;
  readonly added_p50_us: number;
  readonly over_pass_through: number;
}

/** Measures latency with one request at a time, also of the upstream itself. */
export async function addedLatency(bench: Bench): Promise<Readonly<Record<string, AddedLatency>>> {
  const direct: Side = { process: bench.upstream, port: Number(bench.upstream.ready["port"]), key: "none" };
  const rows = await turns(bench, new Map([["direct", direct], ...bench.sides]), singleRequest);
  const p50 = (row: ReadonlyMap<string, Turn>, name: string): number => required(row, name).latencyUs.p50;
  const added = (row: ReadonlyMap<string, Turn>, name: string): number => p50(row, name) - p50(row, "direct");
  const of = (name: string): AddedLatency => ({
    p50_us: rounded(median(rows.map((row) => p50(row, name))), 1),
    added_p50_us: rounded(median(rows.map((row) => added(row, name))), 1),
    over_pass_through: rounded(median(rows.map((row) => added(row, name) / added(row, baseline))), 3),
  });
  return Object.fromEntries(["direct", ...bench.sides.keys()].map((name) => [name, of(name)]));
}

export interface PacedFigures {
  readonly idle_rss_mb: number;
  /** Maximum while all streams were open. */
  readonly rss_mb: number;
  readonly streams: number;
  /** Received chunks as a share of those that the upstream sends; below about 0.98 the side is too slow. */
  readonly pace: number;
  /** Time from the upstream's write to the client's read; null for answers without timestamps. */
  readonly transit_p50_ms: number | null;
  readonly transit_p99_ms: number | null;
}

/** Measures memory with many slow streams, in processes that have done little else before. */
export async function pacedMemory(bench: Bench, seconds: number): Promise<Readonly<Record<string, PacedFigures>>> {
  const figures: Record<string, PacedFigures> = {};
  for (const [name, side] of bench.sides) {
    const { port, process } = side;
    const idleBytes = process.rssBytes();
    const { connections, chunks: stamps } = pacedStreams;
    const request = requestOf(pacedStreams, side);
    // A stream of each connection must have begun before memory is sampled.
    const timing = { rampSeconds, warmUpSeconds: 0.5, seconds };
    const load = bench.programs.load({ side: name, port, request, connections, stamps, ...timing });
    const sampleUntilMs = performance.now() + (timing.rampSeconds + timing.warmUpSeconds + seconds) * 1_000;
    let maxBytes = 0;
    const sampler = setInterval(() => {
      if (performance.now() < sampleUntilMs) maxBytes = Math.max(maxBytes, process.rssBytes());
    }, memorySampleMs);
    const result = await load.finally(() => clearInterval(sampler));
    figures[name] = {
      idle_rss_mb: Math.round(idleBytes / mebibyte),
      rss_mb: Math.round(maxBytes / mebibyte),
      streams: result.openMax,
      pace: rounded(result.chunks / result.seconds / pacedChunksPerSecond, 3),
      transit_p50_ms: toMs(result.transitUs.p50),
      transit_p99_ms: toMs(result.transitUs.p99),
    };
  }
  return figures;
}

/** Sends load whose figures are not used, while V8 compiles the code that the work uses. */
export async function warmUp(bench: Bench, work: Work, seconds: number): Promise<void> {
  for (const [name, side] of bench.sides) await turn({ ...bench, turnSeconds: seconds }, name, side, work);
}

function required<T>(row: ReadonlyMap<string, T>, name: string): T {
  const found = row.get(name);
  if (found === undefined) throw new Error(`no turn of ${name}`);
  return found;
}

/** Converts microseconds; null for -1, which the load client reports if it has measured nothing. */
function toMs(us: number): number | null {
  return us < 0 ? null : rounded(us / 1_000, 2);
}

function rounded(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
