import { Redis } from "ioredis";

/** A key with its content. Members and values are bytes in Latin-1; scores are numbers in decimal. */
export type DumpedKey =
  | readonly [key: string, type: "hash" | "zset", entries: readonly (readonly [member: string, value: string])[]]
  | readonly [key: string, type: "string", value: string]
  | readonly [key: string, type: "set", members: readonly string[]];

const prefix = "uis:";

/** All keys of a service with their content, in the order of their names. Expiries are not kept. */
export async function dumpRedis(url: string): Promise<DumpedKey[]> {
  // With these options, replies are flat lists of members and scores, as for the driver.
  const redis = new Redis(url, { protocol: 2, replyMapping: "legacy" });
  try {
    const names = (await redis.keys(`${prefix}*`)).sort();
    return await Promise.all(names.map((name) => dumpKey(redis, name)));
  } finally {
    redis.disconnect();
  }
}

async function dumpKey(redis: Redis, name: string): Promise<DumpedKey> {
  const text = (bytes: Buffer | null) => bytes?.toString("latin1") ?? "";
  const type = await redis.type(name);
  if (type === "string") return [name, type, text(await redis.getBuffer(name))];
  if (type === "set") return [name, type, (await redis.smembersBuffer(name)).map(text).sort()];
  if (type !== "hash" && type !== "zset") throw new Error(`${name} is a ${type}`);
  const read = type === "hash" ? ["HGETALL", name] : ["ZRANGE", name, "0", "-1", "WITHSCORES"];
  const [command = "", ...args] = read;
  const flat = (await redis.callBuffer(command, ...args)) as Buffer[];
  const texts = flat.map(text);
  const entries = texts.flatMap((member, i) => (i % 2 === 0 ? [[member, texts[i + 1] ?? ""] as const] : []));
  return [name, type, entries.sort(([a], [b]) => (a < b ? -1 : 1))];
}

export async function restoreRedis(url: string, dump: readonly DumpedKey[]): Promise<void> {
  const redis = new Redis(url);
  const bytes = (text: string) => Buffer.from(text, "latin1");
  try {
    for (const [name, type, content] of dump) {
      if (type === "string") await redis.set(name, bytes(content));
      else if (type === "set") await redis.sadd(name, ...content.map(bytes));
      else if (type === "hash")
        await redis.hset(name, ...content.flatMap(([field, value]) => [bytes(field), bytes(value)]));
      else await redis.zadd(name, ...content.flatMap(([member, score]) => [score, bytes(member)]));
    }
  } finally {
    redis.disconnect();
  }
}
