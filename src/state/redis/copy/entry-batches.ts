import { backgroundTimeoutMs, loadScript, type RedisClient } from "../connection/client.js";
import type { Entry } from "./entry.js";

const compareScript = loadScript("compare-entries");

/**
 * Maximum numbers of entries and bytes in one batch, which takes about 5 ms of a server's time. A single entry may have up
 * to 1.4 MB.
 */
const entriesMax = 4_000;
const bytesMax = 4 * 1024 * 1024;
/** Maximum numbers of entries and bytes in one command, so that commands of other clients run in between. */
const entriesOfCommandMax = 1_000;
const bytesOfCommandMax = 512 * 1024;

/** Entries in batches of bounded size. */
export class EntryBatches implements Iterable<readonly Entry[]> {
  readonly #entries: Iterable<Entry>;

  constructor(entries: Iterable<Entry>) {
    this.#entries = entries;
  }

  *[Symbol.iterator](): Iterator<readonly Entry[]> {
    let batch: Entry[] = [];
    let bytes = 0;
    for (const entry of this.#entries) {
      batch.push(entry);
      bytes += sizeOf(entry);
      if (batch.length < entriesMax && bytes < bytesMax) continue;
      yield batch;
      batch = [];
      bytes = 0;
    }
    if (batch.length > 0) yield batch;
  }
}

function sizeOf({ key, member, value }: Entry): number {
  return key.length + member.length + value.length;
}

/** Entries of one key for one command. */
function* commandsOf(batch: readonly Entry[]): Iterable<readonly [first: Entry, ...others: Entry[]]> {
  const open = new Map<string, { readonly entries: [Entry, ...Entry[]]; bytes: number }>();
  for (const entry of batch) {
    const command = open.get(entry.key);
    if (command === undefined) {
      open.set(entry.key, { entries: [entry], bytes: sizeOf(entry) });
      continue;
    }
    command.entries.push(entry);
    command.bytes += sizeOf(entry);
    if (command.entries.length < entriesOfCommandMax && command.bytes < bytesOfCommandMax) continue;
    yield command.entries;
    open.delete(entry.key);
  }
  for (const { entries } of open.values()) yield entries;
}

const writes = {
  hash: { name: "hset", args: ({ member, value }: Entry) => [member, value] },
  zset: { name: "zadd", args: ({ member, value }: Entry) => [value, member] },
  set: { name: "sadd", args: ({ member }: Entry) => [member] },
  string: { name: "set", args: ({ value }: Entry) => [value] },
} as const;

/** Sets entries, whatever they were before. Rejects as RedisClient does; some may be written then. */
export async function writeEntries(client: RedisClient, batch: readonly Entry[]): Promise<void> {
  const calls: Promise<unknown>[] = [];
  client.together(() => {
    for (const entries of commandsOf(batch)) {
      const [{ type, key, expiresAtMs }] = entries;
      const { name, args } = writes[type];
      calls.push(client.command(name, [key, ...entries.flatMap(args)], backgroundTimeoutMs));
      if (expiresAtMs !== undefined) calls.push(client.command("pexpireat", [key, expiresAtMs], backgroundTimeoutMs));
    }
  });
  await allOf(calls);
}

/** Number of entries that the store lacks, and of those with another value. */
export async function compareEntries(client: RedisClient, batch: readonly Entry[]) {
  const calls: Promise<unknown>[] = [];
  client.together(() => {
    for (const entries of commandsOf(batch)) {
      const [{ type, key }] = entries;
      const args = entries.flatMap(({ member, value }) => [member, value]);
      calls.push(client.run(compareScript, [key], [type, ...args], backgroundTimeoutMs));
    }
  });
  const found = (await allOf(calls)) as [number, number][];
  return found.reduce((sum, [missing, other]) => ({ missing: sum.missing + missing, other: sum.other + other }), {
    missing: 0,
    other: 0,
  });
}

/** Waits for all calls even if one fails, so that no call of a failed batch is in progress when the batch is repeated. */
async function allOf(calls: readonly Promise<unknown>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(calls);
  return settled.map((each) => {
    if (each.status === "rejected") throw each.reason;
    return each.value;
  });
}
