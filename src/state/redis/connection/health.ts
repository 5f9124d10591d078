import type { Clock } from "../../../domain/call/ports.js";
import { type StateHealth, StateOpenError } from "../../../domain/service/state.js";
import { meaningOf } from "./client.js";
import type { RedisConnection } from "./connection.js";
import type { StoreTime } from "./scripts.js";

type Durability = StateHealth["durability"];

/** How the servers are set up, of a cluster all its primaries. */
export interface ServerReport {
  /** That of the weakest. */
  readonly durability: Durability;
  readonly warnings: readonly string[];
  /** Why state must not be kept there; null: it may. */
  readonly refusal: { readonly message: string; readonly fix: string } | null;
}

const checkTimeoutMs = 2_000;
/** Settings can be changed while we run: they are looked at again by whoever asks after this time. */
const reportFreshMs = 30_000;
const oldestVersion = [6, 2] as const;

const weakestFirst: readonly Durability[] = ["none", "one-second", "every-write"];

/** Looks at all primaries. Rejects when they do not answer. */
export async function inspectServers(connection: RedisConnection, allowVolatile: boolean): Promise<ServerReport> {
  const unread: string[] = [];
  /** What the user may not ask is a warning; a server that does not answer is an error. */
  const ask = async <T>(name: string, args: readonly string[]): Promise<T[]> => {
    try {
      return await connection.onEachPrimary<T>(name, args, checkTimeoutMs);
    } catch (error) {
      if (!isDenial(error)) throw error;
      unread.push([name, ...args].join(" ").toUpperCase());
      return [];
    }
  };
  const infos = (await ask<string>("info", [])).map(parseInfo);
  const syncs = (await ask<readonly string[]>("config", ["get", "appendfsync"])).map((answer) => answer[1] ?? "");
  const durabilities = infos.map((info, n) => durabilityOf(info, syncs[n] ?? ""));
  const durability = weakestFirst.find((each) => durabilities.includes(each)) ?? "one-second";
  return {
    durability,
    refusal: infos.map((info) => refusalOf(info, allowVolatile)).find((refusal) => refusal !== null) ?? null,
    warnings: [
      ...unread.map(
        (what) =>
          `How Redis is set up could not be checked, for our user may not ask ${what}. Allow it, or make sure of appendonly yes and maxmemory-policy noeviction.`,
      ),
      ...(durability === "none"
        ? ["Redis keeps nothing on disk: all state is lost when it stops. Set appendonly yes."]
        : []),
      ...(durability === "one-second" && syncs.length > 0
        ? [
            "A power cut can take the last second of acknowledged writes from Redis. Set appendfsync always to exclude that.",
          ]
        : []),
      ...(infos.some((info) => info.get("aof_last_write_status") === "err")
        ? ["Redis cannot write its append-only file. Look at its log and the space on its disk."]
        : []),
    ],
  };
}

/** Tells how the store is doing: one round trip, and what the last look at its settings has found. */
export class RedisHealth {
  readonly #connection: RedisConnection;
  readonly #storeTime: StoreTime;
  readonly #clock: Clock;
  #report: ServerReport = { durability: "one-second", warnings: [], refusal: null };
  #reportAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: { readonly connection: RedisConnection; readonly storeTime: StoreTime; readonly clock: Clock }) {
    this.#connection = deps.connection;
    this.#storeTime = deps.storeTime;
    this.#clock = deps.clock;
  }

  /** At the start. Rejects with StateOpenError where state must not be kept; the warnings of a server that may be used. */
  async check(allowVolatile: boolean): Promise<readonly string[]> {
    let report: ServerReport;
    try {
      report = await inspectServers(this.#connection, allowVolatile);
      await this.#roundTrip();
    } catch (cause) {
      throw new StateOpenError(`Redis cannot be checked: ${meaningOf(cause)}`, "look at its log", { cause });
    }
    if (report.refusal !== null) throw new StateOpenError(report.refusal.message, report.refusal.fix);
    this.#report = report;
    this.#reportAtMs = this.#clock.monotonic();
    return report.warnings;
  }

  async now(): Promise<StateHealth> {
    const sentAtMs = this.#clock.monotonic();
    try {
      await this.#roundTrip();
      const latencyMs = this.#clock.monotonic() - sentAtMs;
      if (sentAtMs - this.#reportAtMs > reportFreshMs) {
        // What would have refused the start is a warning now: stopping would lose more than it saves.
        this.#report = await inspectServers(this.#connection, true);
        this.#reportAtMs = sentAtMs;
      }
      const { durability, warnings, refusal } = this.#report;
      const all = refusal === null ? warnings : [`${refusal.message}: ${refusal.fix}.`, ...warnings];
      return { ok: true, latencyMs, durability, writeFault: null, warnings: all };
    } catch (error) {
      const latencyMs = this.#clock.monotonic() - sentAtMs;
      const problem = error instanceof Error ? error.message : String(error);
      return { ok: false, latencyMs, durability: this.#report.durability, writeFault: null, warnings: [problem] };
    }
  }

  async #roundTrip(): Promise<void> {
    const sentAtMs = this.#storeTime.monotonic();
    const [seconds = "0", micros = "0"] = await this.#connection.command<string[]>("time", []);
    const storeMs = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000) + this.#storeTime.shiftMs;
    this.#storeTime.observe(storeMs, sentAtMs, this.#storeTime.monotonic());
  }
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
      message: `Redis may throw away API keys and usage when its memory is full (maxmemory-policy ${policy})`,
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

/** The server has answered, and will not tell this to our user; hosted servers do not know some commands at all. */
function isDenial(error: unknown): boolean {
  const message = error instanceof Error ? error.message : "";
  return message.startsWith("NOPERM") || message.includes("unknown command");
}
