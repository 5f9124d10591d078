import { Redis } from "ioredis";
import { type Check, fail, ok, warn } from "./check.js";

const connectTimeoutMs = 2_000;
const oldestVersion = 6;

/** Whether a Redis server could hold the state; none of it when no URL is set. */
export async function redisChecks(url: string | undefined): Promise<Check[]> {
  if (url === undefined || url === "") return [];
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: connectTimeoutMs,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  // Each command's own rejection says why.
  redis.on("error", () => {});
  try {
    await redis.connect();
    await redis.ping();
    const info = fieldsOf(await redis.info());
    return [versionCheck(info), evictionCheck(info), appendOnlyCheck(info)];
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return [fail("redis", `no answer: ${reason}`, "check REDIS_URL and that the server runs")];
  } finally {
    redis.disconnect();
  }
}

type Info = ReadonlyMap<string, string>;

function fieldsOf(info: string): Info {
  return new Map(
    info.split("\r\n").flatMap((line) => {
      const colon = line.indexOf(":");
      return colon < 1 ? [] : [[line.slice(0, colon), line.slice(colon + 1)] as const];
    }),
  );
}

function versionCheck(info: Info): Check {
  const version = info.get("redis_version") ?? "unknown";
  if (Number.parseInt(version, 10) >= oldestVersion) return ok("redis", `Redis ${version}`);
  return fail("redis", `Redis ${version}`, `use Redis ${oldestVersion} or newer`);
}

function evictionCheck(info: Info): Check {
  const policy = info.get("maxmemory_policy") ?? "unknown";
  if (policy === "noeviction") return ok("redis_eviction", policy);
  return fail("redis_eviction", `maxmemory-policy is ${policy}: keys and usage can vanish`, "set it to noeviction");
}

function appendOnlyCheck(info: Info): Check {
  if (info.get("aof_enabled") === "1") return ok("redis_durability", "append-only file is on");
  return warn("redis_durability", "append-only file is off: a crash loses writes", "set appendonly yes");
}
