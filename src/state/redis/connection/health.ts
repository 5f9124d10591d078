import type { Clock } from "../../../domain/call/ports.js";
import type { ClockJumps } from "../../../domain/service/clock-jumps.js";
import { type StateHealth, StateOpenError } from "../../../domain/service/state.js";
import type { RedisConnection } from "./connection.js";
import { checkPermissions, isDenial, neededCommands } from "./permissions.js";
import type { StoreTime } from "./scripts.js";

type Durability = StateHealth["durability"];

/** Settings of the server, or of all primaries of a cluster. */
interface ServerReport {
  /** Durability of the server with the weakest setting. */
  readonly durability: Durability;
  readonly warnings: readonly string[];
  /** Why the server must not be used; null: it may. */
  readonly refusal: { readonly message: string; readonly fix: string } | null;
}

/**
 * Timeout of a health check. It is long, because a slow Redis is usable and counts as healthy, and no request waits for the
 * check.
 */
const checkTimeoutMs = 2_000;
/**
 * Round trip time above which each process decides limits locally: admissions do not wait longer for the store
 * (state RL-16).
 */
const slowMs = 50;
const slowSamples = 3;
/**
 * Age of the read settings after which the next health check reads them again, because they may change while the service
 * runs.
 */
const reportFreshMs = 30_000;
const oldestVersion = [6, 2] as const;

const weakestFirst: readonly Durability[] = ["none", "one-second", "every-write"];

/** Reads the settings of all primaries. Rejects when they do not answer. */
async function inspectServers(
  connection: RedisConnection,
  allowVolatile: boolean,
  timeoutMs: number,
): Promise<ServerReport> {
  const warnings: string[] = [];
  /** A missing permission is a warning; a server that does not answer is an error. */
  const ask = async <T>(name: string, args: readonly string[]): Promise<T[]> => {
    try {
      return await connection.onEachPrimary<T>(name, args, timeoutMs);
    } catch (error) {
      if (!isDenial(error)) throw error;
      const what = [name, ...args].join(" ").toUpperCase();
      warnings.push(
        `The settings of Redis could not be checked, because our user may not run ${what}. Allow it, or make sure of appendonly yes and maxmemory-policy noeviction.`,
      );
      return [];
    }
  };
  const infos = (await ask<string>("info", [])).map(parseInfo);
  const syncs = (await ask<readonly string[]>("config", ["get", "appendfsync"])).map((answer) => answer[1] ?? "");
  const durabilities = infos.map((info, n) => durabilityOf(info, syncs[n] ?? ""));
  const durability = weakestFirst.find((each) => durabilities.includes(each)) ?? "one-second";
  if (durability === "none") {
    warnings.push("Redis keeps nothing on disk: all state is lost when it stops. Set appendonly yes.");
  }
  if (durability === "one-second" && syncs.length > 0) {
    warnings.push(
      "A power cut can lose the last second of writes that Redis has acknowledged. To prevent that, set appendfsync always.",
    );
  }
  const loadsTruncated =
    durability !== "none" && syncs.length > 0
      ? (await ask<readonly string[]>("config", ["get", "aof-load-truncated"])).some(([, value]) => value === "yes")
      : false;
  if (loadsTruncated) {
    warnings.push(
      "After a crash in the middle of a write, Redis can keep half of a transaction in its append-only file, and lose what it acknowledges until the next crash. To prevent that, set aof-load-truncated no and run redis-check-aof --fix before each start: see docs/operations.md.",
    );
  }
  if (infos.some((info) => info.get("aof_last_write_status") === "err")) {
    warnings.push("Redis cannot write its append-only file. Check its log and its disk space.");
  }
  const refusal = infos.map((info) => refusalOf(info, allowVolatile)).find((each) => each !== null) ?? null;
  return { durability, warnings, refusal };
}

interface RedisHealthDeps {
  readonly connection: RedisConnection;
  readonly storeTime: StoreTime;
  readonly jumps: ClockJumps;
  readonly clock: Clock;
}

/** If times observed earlier are ahead of the clock of Redis by this much, the health check warns. */
const aheadWarnMs = 60_000;
const aheadFix =
  "Set its clock. Times stored earlier, such as times of retries, stay in the future until the clock reaches them.";

/** Health of the store, from a round trip and the settings that were read last. */
export function createRedisHealth({ connection, storeTime, jumps, clock }: RedisHealthDeps) {
  let report: ServerReport = { durability: "one-second", warnings: [], refusal: null };
  let reportAtMs = Number.NEGATIVE_INFINITY;

  /** Sends one command and returns the duration of the round trip in ms. */
  const roundTrip = async (timeoutMs: number): Promise<number> => {
    const sentAtMs = storeTime.monotonic();
    const [seconds = "0", micros = "0"] = await connection.command<string[]>("time", [], timeoutMs);
    const storeMs = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000) + storeTime.shiftMs;
    const receivedAtMs = storeTime.monotonic();
    storeTime.observe(storeMs, sentAtMs, receivedAtMs);
    return receivedAtMs - sentAtMs;
  };
  /** A warning about a slow server; the fastest of several round trips shows the network's latency. */
  const slowness = async (timeoutMs: number): Promise<readonly string[]> => {
    let fastestMs = await roundTrip(timeoutMs);
    for (let n = 1; n < slowSamples && fastestMs > slowMs; n += 1) {
      fastestMs = Math.min(fastestMs, await roundTrip(timeoutMs));
    }
    if (fastestMs <= slowMs) return [];
    return [
      `Redis takes ${Math.round(fastestMs)} ms for a round trip. Above ${slowMs} ms each process decides limits by itself, and above 250 ms usage is stored later, from the spool. Move Redis closer to this service.`,
    ];
  };

  const clockHealth = () => ({ jumps: jumps.count, aheadMs: storeTime.aheadMs() });

  return {
    /**
     * Returns the warnings about a usable server. Rejects with StateOpenError for one that must not be used, and with
     * another error for one that does not answer within `timeoutMs`.
     */
    async check(
      allowVolatile: boolean,
      user: string,
      timeoutMs: number,
      commands = neededCommands,
    ): Promise<readonly string[]> {
      report = await inspectServers(connection, allowVolatile, timeoutMs);
      if (report.refusal !== null) throw new StateOpenError(report.refusal.message, report.refusal.fix);
      const untested = await checkPermissions(connection, user, timeoutMs, commands);
      reportAtMs = clock.monotonic();
      return [...report.warnings, ...(untested === null ? [] : [untested]), ...(await slowness(timeoutMs))];
    },
    async now(): Promise<StateHealth> {
      const sentAtMs = clock.monotonic();
      try {
        const latencyMs = await roundTrip(checkTimeoutMs);
        if (sentAtMs - reportAtMs > reportFreshMs) {
          // A fault that would prevent a start is only a warning here, because stopping the service would do more harm.
          report = await inspectServers(connection, true, checkTimeoutMs);
          reportAtMs = sentAtMs;
        }
        const { durability, refusal } = report;
        const faults = refusal === null ? [] : [`${refusal.message}: ${refusal.fix}.`];
        const clockWarnings = jumps.warnings(storeTime.aheadMs(), aheadWarnMs, aheadFix);
        const warnings = [...faults, ...report.warnings, ...clockWarnings];
        return { ok: true, latencyMs, durability, writeFault: null, clock: clockHealth(), warnings };
      } catch (error) {
        const latencyMs = clock.monotonic() - sentAtMs;
        const problem = error instanceof Error ? error.message : String(error);
        const { durability } = report;
        return { ok: false, latencyMs, durability, writeFault: null, clock: clockHealth(), warnings: [problem] };
      }
    },
  };
}

type Info = ReadonlyMap<string, string>;

function parseInfo(text: string): Info {
  return new Map(
    text.split("\r\n").flatMap((line): [string, string][] => {
      const colon = line.indexOf(":");
      return colon === -1 ? [] : [[line.slice(0, colon), line.slice(colon + 1)]];
    }),
  );
}

function refusalOf(info: Info, allowVolatile: boolean): ServerReport["refusal"] {
  const version = info.get("redis_version") ?? "";
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major < oldestVersion[0] || (major === oldestVersion[0] && minor < oldestVersion[1])) {
    return { message: `Redis ${version} is too old`, fix: `use Redis ${oldestVersion.join(".")} or newer` };
  }
  if (info.get("role") === "slave") {
    return {
      message: "this Redis is a replica, which takes no writes",
      fix: "give the address of its primary, or of Sentinel: redis+sentinel://host/name",
    };
  }
  const policy = info.get("maxmemory_policy");
  if (policy !== undefined && policy !== "noeviction") {
    return {
      message: `Redis may evict API keys and usage when its memory is full (maxmemory-policy ${policy})`,
      fix: "set maxmemory-policy noeviction",
    };
  }
  if (info.get("aof_enabled") === "0" && !allowVolatile) {
    return {
      message: "Redis keeps nothing on disk (appendonly no): API keys and usage are lost when it stops",
      fix: "set appendonly yes, or accept the loss with state.allow_volatile: true",
    };
  }
  return null;
}

function durabilityOf(info: Info, sync: string): Durability {
  if (info.get("aof_enabled") === "0") return "none";
  return sync === "always" ? "every-write" : "one-second";
}
