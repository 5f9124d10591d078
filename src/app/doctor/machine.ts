import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import type { Logger } from "../../domain/call/ports.js";
import { type State, StateOpenError } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock-and-ids.js";
import { openState, sqliteVersion } from "../compose/state.js";
import type { Config } from "../config/schema.js";
import { type Check, fail, type OtherClock, ok, warn } from "./check.js";

const oldestNode = [20, 19] as const;
/** Older release lines get no security fixes any more, and neither do those with odd numbers. */
const oldestSupportedMajor = 22;
/** The first release of each line without the security faults that are known of the ones before. */
const securityFloors: ReadonlyMap<number, string> = new Map([
  [20, "20.20.2"],
  [22, "22.22.2"],
  [24, "24.14.1"],
]);
const openFilesWanted = 4096;

/** What the engine's fast code needs, as Linux names it. */
const fastFeatures: Readonly<Partial<Record<NodeJS.Architecture, readonly string[]>>> = {
  x64: ["avx2", "fma", "f16c"],
  arm64: ["asimd", "asimddp"],
};

/** `version` as `process.versions.node` has it. */
export function runtimeCheck(version: string): Check {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const detail = `Node ${version}`;
  if (major < oldestNode[0] || (major === oldestNode[0] && minor < oldestNode[1])) {
    return fail("node", detail, "install Node 24; 20.19 is the oldest that works");
  }
  if (major < oldestSupportedMajor || (major % 2 === 1 && major < 25)) {
    return warn("node", `${detail}: this release line gets no security fixes any more`, "install Node 24");
  }
  const floor = securityFloors.get(major);
  if (floor !== undefined && isOlder(version, floor)) {
    return warn("node", `${detail} has known security faults`, `install Node ${floor} or newer`);
  }
  return ok("node", detail);
}

function isOlder(version: string, floor: string): boolean {
  const parts = version.split(".").map(Number);
  const least = floor.split(".").map(Number);
  const differing = least.findIndex((part, i) => (parts[i] ?? 0) !== part);
  return differing !== -1 && (parts[differing] ?? 0) < (least[differing] ?? 0);
}

/** Whether the binding of the embedded store loads and works. */
export function sqliteCheck(): Check {
  try {
    return ok("sqlite", `SQLite ${sqliteVersion()}`);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return fail("sqlite", reason, "use Node 22.13 or newer, or install without --omit=optional");
  }
}

/** Whether the engine's fast code can run here. Known on Linux only. */
export async function processorCheck(): Promise<Check> {
  const facts = await readFile("/proc/cpuinfo", "utf8").catch(() => "");
  return judgeProcessor(facts, process.arch, availableParallelism());
}

/** `facts`: what `/proc/cpuinfo` says, empty where there is none. `cores`: threads that may run at once. */
export function judgeProcessor(facts: string, architecture: NodeJS.Architecture, cores: number): Check {
  const detail = `${cores} cores, ${architecture}`;
  const features = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(facts)?.[1]?.split(" ");
  const wanted = fastFeatures[architecture] ?? [];
  if (features === undefined) return ok("cpu", `${detail}; its features are not known on this system`);
  const missing = wanted.filter((name) => !features.includes(name));
  if (missing.length === 0) return ok("cpu", [detail, ...wanted].join(" "));
  return warn(
    "cpu",
    `${detail}, without ${missing.join(", ")}: the embedded engine will be slow`,
    "use another machine; a virtual one has to be given the features of its host's processor",
  );
}

/** Each connection takes one open file. Known on Linux only. */
export async function openFilesCheck(): Promise<Check> {
  const limits = await readFile("/proc/self/limits", "utf8").catch(() => "");
  const limit = /^Max open files\s+(\d+|unlimited)/m.exec(limits)?.[1];
  if (limit === undefined) return ok("open_files", "not known on this system");
  if (limit !== "unlimited" && Number(limit) < openFilesWanted) {
    return warn("open_files", `at most ${limit} open files`, "raise it: ulimit -n 65536, or LimitNOFILE= with systemd");
  }
  return ok("open_files", `at most ${limit} open files`);
}

/** Every request waits for one round trip or two. */
const latencyWarnMs = 20;
/** The quickest of so many is what the network takes; the first also opens things. */
const roundTrips = 3;

const durableFix = "set appendonly yes, appendfsync always and maxmemory-policy noeviction for Redis";

/** Silent: the checks report what a start would log. */
const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

interface RedisFindings {
  readonly checks: readonly Check[];
  /** Null: there is no Redis, or it does not answer. */
  readonly clock: OtherClock | null;
}

/** Whether the configured Redis would be accepted by a start, and how safe and how far it is; nothing without one. */
export async function lookAtRedis(config: Config): Promise<RedisFindings> {
  if (config.state.redis_url === null) return { checks: [], clock: null };
  try {
    const state = await openState(config, { clock: createSystemClock(), log: silent });
    try {
      return await lookAtState(state);
    } finally {
      await state.close();
    }
  } catch (error) {
    if (!(error instanceof StateOpenError)) throw error;
    return { checks: [fail("redis", error.message, error.fix)], clock: null };
  }
}

/** The same of a state that is open; nothing of one that is not in Redis. */
export async function lookAtState(state: Pick<State, "kind" | "health" | "now">): Promise<RedisFindings> {
  if (state.kind !== "redis") return { checks: [], clock: null };
  const { ok: answers, latencyMs, durability, warnings } = await state.health();
  if (!answers) {
    const reason = warnings.join("; ") || "it does not answer";
    return { checks: [fail("redis", reason, "look at its log, and at the network on the way")], clock: null };
  }
  let quickestMs = latencyMs;
  for (let i = 1; i < roundTrips; i++) quickestMs = Math.min(quickestMs, (await state.health()).latencyMs);
  const aheadMs = Date.now() - state.now();
  const durable = warnings.map((warning) => warn("redis_durability", warning, durableFix));
  return {
    checks: [latencyCheck(quickestMs, durability), ...durable],
    clock: { name: "Redis", aheadMs },
  };
}

function latencyCheck(latencyMs: number, durability: string): Check {
  const detail = `answers within ${latencyMs.toFixed(1)} ms; durability ${durability}`;
  if (latencyMs < latencyWarnMs) return ok("redis", detail);
  return warn("redis", `${detail}: every request waits for it`, "move Redis and this service nearer to each other");
}
