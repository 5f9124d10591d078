import { readFileSync } from "node:fs";

/** Resident bytes of a service's processes, measured at the same time. */
export interface MemorySample {
  readonly atMs: number;
  /** Bytes by process: `server`, then `engine 1`, `engine 2` … in the order of their start. */
  readonly rss: Readonly<Record<string, number>>;
}

const pageBytes = 4096;
const minuteMs = 60_000;
const mebibyte = 2 ** 20;

/** Process ids of the engine processes, which are child processes of the server. */
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

/** Number of parts of the run that are compared. */
const windows = 8;

/**
 * Growth of each process in mebibytes per minute: the median of the differences between the lowest values of successive
 * eighths of the run. A heap grows until a garbage collection, so only its lowest values can be compared. V8 enlarges it by
 * 30 MiB in one step, at a time that differs from run to run, while a leak raises every part.
 */
export function memoryGrowth(samples: readonly MemorySample[]): Readonly<Record<string, number>> {
  const names = Object.keys(samples[0]?.rss ?? {});
  const length = Math.floor(samples.length / windows);
  const minutes = (length * ((samples.at(-1)?.atMs ?? 0) - (samples[0]?.atMs ?? 0))) / (samples.length - 1) / minuteMs;
  const growth = (name: string): number => {
    const lowest = Array.from({ length: windows }, (_, i) =>
      Math.min(...samples.slice(i * length, (i + 1) * length).map(({ rss }) => rss[name] ?? 0)),
    );
    const differences = lowest.slice(1).map((bytes, i) => bytes - (lowest[i] ?? 0));
    return (differences.sort((a, b) => a - b)[(windows - 2) / 2] ?? 0) / mebibyte / minutes;
  };
  return Object.fromEntries(names.map((name) => [name, growth(name)]));
}

function rssBytes(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]) * pageBytes;
}
