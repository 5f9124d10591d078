import { readFileSync } from "node:fs";
import { StartError } from "./lifecycle.js";

/** Open files that are reserved for the store, health checks, deliveries, engine processes, operators and files. */
const reserve = 192;
/** Sockets of one client connection: a request that is sent to an upstream needs a second one. */
const perConnection = 2;
const connectionsMin = 64;
export const openFilesMin = reserve + perConnection * connectionsMin;
export const openFilesFix = "raise it: ulimit -n 65536, or LimitNOFILE= with systemd";

/** How many files and connections this process may have open; Infinity: unlimited. Null: unknown, except on Linux. */
export function openFilesLimit(): number | null {
  if (process.platform !== "linux") return null;
  const limit = /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
  if (limit === undefined) return null;
  return limit === "unlimited" ? Number.POSITIVE_INFINITY : Number(limit);
}

/** Connections that the listeners may have below this limit of open files (E-26). Throws StartError if too few are left. */
export function connectionsWithin(openFiles: number | null): number {
  if (openFiles === null) return Number.POSITIVE_INFINITY;
  if (openFiles < openFilesMin) {
    const why = `the service may have at most ${openFiles} open files, and needs ${openFilesMin}`;
    throw new StartError(why, openFilesFix);
  }
  return Math.floor((openFiles - reserve) / perConnection);
}
