import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { type State, StateOpenError } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock.js";
import { errorText } from "../../lib/display-text.js";
import { commandTimeoutMs, inspectStateFile, openState, sqliteVersion } from "../compose/state.js";
import type { Config } from "../config/schema.js";
import { openFilesFix, openFilesLimit, openFilesMin } from "../process/open-files.js";
import { type Check, fail, type OtherClock, ok, silentLog, warn } from "./check.js";

const oldestNode = [20, 19] as const;
/** Older release lines, and those with odd numbers, get no security fixes. */
const oldestSupportedMajor = 22;
/** First release of each line without the known security faults of its predecessors. */
const securityFloors: ReadonlyMap<number, string> = new Map([
  [20, "20.20.2"],
  [22, "22.22.2"],
  [24, "24.14.1"],
]);
const openFilesWanted = 4096;

/** Processor features of the engine's fast code, by their names in Linux. */
const fastFeatures: Readonly<Partial<Record<NodeJS.Architecture, readonly string[]>>> = {
  x64: ["avx2", "fma", "f16c"],
  arm64: ["asimd", "asimddp"],
};

/** Whether Node is supported and has current security fixes. `version`: `process.versions.node`. */
export function runtimeCheck(version: string): Check {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const detail = `Node ${version}`;
  if (major < oldestNode[0] || (major === oldestNode[0] && minor < oldestNode[1])) {
    return fail("node", detail, "install Node 24; 20.19 is the oldest that works");
  }
  if (major < oldestSupportedMajor || (major % 2 === 1 && major < 25)) {
    return warn("node", `${detail}: this release line gets no security fixes`, "install Node 24");
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

/** Whether the binding of the embedded store works. */
export function sqliteCheck(): Check {
  try {
    return ok("sqlite", `SQLite ${sqliteVersion()}`);
  } catch (error) {
    return fail("sqlite", errorText(error), "use Node 22.13 or newer, or install without --omit=optional");
  }
}

/** Whether the engine's fast code can run here. Known only on Linux. */
export async function processorCheck(): Promise<Check> {
  const facts = await readFile("/proc/cpuinfo", "utf8").catch(() => "");
  return judgeProcessor(facts, process.arch, availableParallelism());
}

/** `facts`: the content of `/proc/cpuinfo`, empty if there is none. `cores`: threads that may run in parallel. */
export function judgeProcessor(facts: string, architecture: NodeJS.Architecture, cores: number): Check {
  const detail = `${cores} cores, ${architecture}`;
  const features = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(facts)?.[1]?.split(" ");
  const wanted = fastFeatures[architecture] ?? [];
  if (features === undefined) return ok("cpu", `${detail}; its features are unknown on this system`);
  const missing = wanted.filter((name) => !features.includes(name));
  if (missing.length === 0) return ok("cpu", [detail, ...wanted].join(" "));
  return warn(
    "cpu",
    `${detail}, without ${missing.join(", ")}: the embedded engine will be slow`,
    "use another machine; pass the features of the host's processor to a virtual machine",
  );
}

/** Each connection needs an open file. Known only on Linux. */
export function openFilesCheck(): Check {
  const limit = openFilesLimit();
  if (limit === null) return ok("open_files", "unknown on this system");
  if (limit === Number.POSITIVE_INFINITY) return ok("open_files", "at most unlimited open files");
  const detail = `at most ${limit} open files`;
  if (limit < openFilesMin) return fail("open_files", `${detail}, and a start needs ${openFilesMin}`, openFilesFix);
  return limit < openFilesWanted ? warn("open_files", detail, openFilesFix) : ok("open_files", detail);
}

/** Latency of Redis that is a warning: every request waits for one or two round trips. */
const latencyWarnMs = 20;
/** Number of measured round trips, of which the fastest counts: the first one also opens connections. */
const roundTrips = 3;

const durableFix = "set appendonly yes, appendfsync always and maxmemory-policy noeviction for Redis";

interface RedisFindings {
  readonly checks: readonly Check[];
  /** Null without Redis, or if it does not answer. */
  readonly clock: OtherClock | null;
}

/** Whether a start would accept the configured Redis, with its durability and latency; no checks without one. */
export async function examineRedis(config: Config): Promise<RedisFindings> {
  if (config.state.redis_url === null) return { checks: [], clock: null };
  try {
    const tools = { clock: createSystemClock(), log: silentLog, openWithinMs: commandTimeoutMs };
    const state = await openState(config, tools);
    try {
      return await examineState(state);
    } finally {
      await state.close();
    }
  } catch (error) {
    if (!(error instanceof StateOpenError)) throw error;
    return { checks: [fail("redis", error.message, error.fix)], clock: null };
  }
}

/** The file of the embedded database while no service uses it; no check for other stores. `config.data_dir` is absolute. */
export function examineStateFile({ data_dir: dataDir, state }: Config): readonly Check[] {
  if (state.redis_url !== null || state.durability === "none") return [];
  const problem = inspectStateFile(dataDir, { nowMs: Date.now(), leadMaxMs: state.clock_lead_max });
  if (problem === null) return [ok("state", `the state in ${dataDir} is usable, or will be created`)];
  return [(problem.isFatal ? fail : warn)("state", problem.message, problem.fix)];
}

const writeFix = "make the data folder writable and give it space; the log has the whole error";
const stateFix = "see docs/failures.md";

/** Checks of an open store; for Redis also its latency and clock. */
export async function examineState(state: Pick<State, "kind" | "health" | "now">): Promise<RedisFindings> {
  // State in memory needs no check here: the check of settings warns of it.
  if (state.kind === "volatile") return { checks: [], clock: null };
  if (state.kind === "embedded") {
    const { ok: answers, writeFault, warnings } = await state.health();
    if (!answers || writeFault !== null) {
      return { checks: [fail("state", writeFault ?? warnings.join("; "), writeFix)], clock: null };
    }
    const found = warnings.map((warning) => warn("state", warning, stateFix));
    return { checks: found.length > 0 ? found : [ok("state", "the store answers and accepts writes")], clock: null };
  }
  const { ok: answers, latencyMs, durability, warnings } = await state.health();
  if (!answers) {
    const reason = warnings.join("; ") || "it does not answer";
    return { checks: [fail("redis", reason, "check its log and the network")], clock: null };
  }
  let fastestMs = latencyMs;
  for (let i = 1; i < roundTrips; i++) fastestMs = Math.min(fastestMs, (await state.health()).latencyMs);
  const aheadMs = Date.now() - state.now();
  const durable = warnings.map((warning) => warn("redis_durability", warning, durableFix));
  return { checks: [latencyCheck(fastestMs, durability), ...durable], clock: { name: "Redis", aheadMs } };
}

function latencyCheck(latencyMs: number, durability: string): Check {
  const detail = `answers within ${latencyMs.toFixed(1)} ms; durability ${durability}`;
  if (latencyMs < latencyWarnMs) return ok("redis", detail);
  return warn("redis", `${detail}: every request waits for it`, "move Redis closer to this service");
}
