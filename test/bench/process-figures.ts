import { readFileSync } from "node:fs";

/** The kernel counts processor time in ticks of this length. */
const tickMs = 10;
const pageBytes = 4096;

/** Processor time that a process has used so far, in milliseconds, with all of its threads. */
export function cpuMs(pid: number): number {
  const [, fields = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
  const [user = 0, system = 0] = fields.split(" ").slice(11, 13).map(Number);
  return (user + system) * tickMs;
}

/** Resident memory of a process in bytes. */
export function rssBytes(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]) * pageBytes;
}

/** Children of a process's main thread, in the order of their start. */
export function childPids(pid: number): readonly number[] {
  return Array.from(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").matchAll(/\d+/g), Number);
}
