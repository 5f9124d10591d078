import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Variables that make the wall clock of a Redis server, which is what the store's time is taken from, run `speed` times as
 * fast from its start on, or from the true time `begunAtMs` on. Made in `folder` with gcc. For tests of minutes that have
 * seconds; nothing else of the server is any different, and a `speed` of 1 needs nothing.
 */
export function fastClock(folder: string, speed: number, begunAtMs: number | null = null): Record<string, string> {
  if (speed === 1) return {};
  const library = join(folder, "fast-clock.so");
  const source = fileURLToPath(new URL("./fast-clock.c", import.meta.url));
  execFileSync("gcc", ["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source]);
  const env = { LD_PRELOAD: library, CLOCK_SPEED: String(speed) };
  return begunAtMs === null ? env : { ...env, CLOCK_BEGUN_NS: String(Math.round(begunAtMs * 1e6)) };
}
