import { readFileSync } from "node:fs";

/** Resident bytes of a service's processes, all taken at one moment. */
export interface MemorySample {
  readonly atMs: number;
  /** Bytes by process: `server`, then `engine 1`, `engine 2` … in the order of their start. */
  readonly rss: Readonly<Record<string, number>>;
}

const pageBytes = 4096;
const minuteMs = 60_000;
const mebibyte = 2 ** 20;

/** Process ids of the engine's processes of a service, which are its children. */
export function enginePids(serverPid: number): readonly number[] {
  const children = readFileSync(`/proc/${serverPid}/task/${serverPid}/children`, "utf8").matchAll(/\d+/g);
  return Array.from(children, Number).filter((pid) =>
    readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("child/main"),
  );
}

export function sampleMemory(serverPid: number, engines: readonly number[]): MemorySample {
  const processes = [
    ["server", serverPid] as const,
    ...engines.map((pid, place) => [`engine ${place + 1}`, pid] as const),
  ];
  return {
    atMs: performance.now(),
    rss: Object.fromEntries(processes.map(([name, pid]) => [name, rssBytes(pid)])),
  };
}

/** Parts of the run whose slopes are compared. */
const windows = 8;

/**
 * Growth of each process in mebibytes per minute: the median of the slopes of the least-squares lines through eight parts
 * of the run. V8 enlarges its heap by 30 MiB at once, at a moment that differs from run to run; a leak grows in every part.
 */
export function memorySlopes(samples: readonly MemorySample[]): Readonly<Record<string, number>> {
  const names = Object.keys(samples[0]?.rss ?? {});
  const length = Math.floor(samples.length / windows);
  const parts = Array.from({ length: windows }, (_, i) => samples.slice(i * length, (i + 1) * length));
  const growth = (name: string): number => {
    const slopes = parts.map((part) => slope(part.map(({ atMs, rss }) => [atMs, rss[name] ?? 0])));
    const [low = 0, high = 0] = slopes.sort((a, b) => a - b).slice(windows / 2 - 1, windows / 2 + 1);
    return (low + high) / 2;
  };
  return Object.fromEntries(names.map((name) => [name, growth(name)]));
}

function rssBytes(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]) * pageBytes;
}

function slope(points: readonly (readonly [atMs: number, bytes: number])[]): number {
  const mean = (numbers: readonly number[]): number => numbers.reduce((sum, x) => sum + x, 0) / numbers.length;
  const atMean = mean(points.map(([at]) => at));
  const bytesMean = mean(points.map(([, bytes]) => bytes));
  const covariance = mean(points.map(([at, bytes]) => (at - atMean) * (bytes - bytesMean)));
  return ((covariance / mean(points.map(([at]) => (at - atMean) ** 2))) * minuteMs) / mebibyte;
}
