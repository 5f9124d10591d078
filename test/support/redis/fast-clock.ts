import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Environment variables that make the wall clock of a Redis server, and so the store's time, run `speed` times as fast from
 * the server's start on, or from the real time `begunAtMs` on. Compiles a library in `folder` with gcc. Nothing else of the
 * server changes, and a `speed` of 1 needs no variables. Used to run minutes of store time in seconds.
 */
export function fastClock(folder: string, speed: number, begunAtMs: number | null = null): Record<string, string> {
  if (speed === 1) return {};
  const library = join(folder, "fast-clock.so");
  const source = fileURLToPath(new URL("./fast-clock.c", import.meta.url));
  execFileSync("gcc", ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source]);
  const env = { LD_PRELOAD: library, CLOCK_SPEED: String(speed) };
  return begunAtMs === null ? env : { ...env, CLOCK_BEGUN_NS: String(Math.round(begunAtMs * 1e6)) };
}
