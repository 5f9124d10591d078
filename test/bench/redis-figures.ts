import type { Redis } from "ioredis";

/** Counters of a Redis server since its start, and its present sizes. */
export interface RedisFigures {
  /** Scripts that clients called. Each is one round trip. */
  readonly scripts: number;
  /** All commands, including those inside scripts. */
  readonly commands: number;
  /** Bytes received from clients, and sent to them. */
  readonly inBytes: number;
  readonly outBytes: number;
  readonly cpuUs: number;
  readonly memoryBytes: number;
  readonly keys: number;
  /** Size of the append-only file, which only grows as long as it is not rewritten. */
  readonly fileBytes: number;
}

export async function readRedis(client: Redis): Promise<RedisFigures> {
  const info = await client.info("everything");
  const numberOf = (field: string): number => Number(new RegExp(`^${field}:([\\d.]+)`, "m").exec(info)?.[1] ?? 0);
  let scripts = 0;
  let commands = 0;
  for (const [, name = "", calls] of info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)) {
    commands += Number(calls);
    if (/^(eval|evalsha)(_ro)?$/.test(name)) scripts += Number(calls);
  }
  return {
    scripts,
    commands,
    inBytes: numberOf("total_net_input_bytes"),
    outBytes: numberOf("total_net_output_bytes"),
    cpuUs: (numberOf("used_cpu_user") + numberOf("used_cpu_sys")) * 1_000_000,
    memoryBytes: numberOf("used_memory"),
    keys: Number(/^db0:keys=(\d+)/m.exec(info)?.[1] ?? 0),
    fileBytes: numberOf("aof_current_size"),
  };
}

/** The differences between two readings, divided by `count`. */
export function redisCosts(before: RedisFigures, after: RedisFigures, count: number): RedisFigures {
  const each = (name: keyof RedisFigures): number => (after[name] - before[name]) / count;
  return {
    scripts: each("scripts"),
    commands: each("commands"),
    inBytes: each("inBytes"),
    outBytes: each("outBytes"),
    cpuUs: each("cpuUs"),
    memoryBytes: each("memoryBytes"),
    keys: each("keys"),
    fileBytes: each("fileBytes"),
  };
}
