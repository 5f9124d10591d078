import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { RedisProcess } from "./redis-process.js";

/** The history of all replicas' requests in a Redis server. */
export interface LedgerHistory {
  /** Admission time of each request, by the server's clock. */
  readonly admittedAtMs: ReadonlyMap<string, number>;
  /** Number of settlements of each request. */
  readonly settled: ReadonlyMap<string, number>;
  /** Requests that a sweep found. */
  readonly swept: ReadonlySet<string>;
}

/** Disables rewriting, so that the append-only file keeps the whole history. */
export const keepHistory: readonly string[] = ["--auto-aof-rewrite-percentage", "0"];

/**
 * Reads the history from the append-only file, which contains the writes of scripts: an admission is a lease that ends
 * `leaseMs` after the store's decision; a settlement is the marker of the request. The file has the store's times to the
 * millisecond, so no queries are needed while the store runs.
 */
export async function readLedgerHistory(redis: RedisProcess, leaseMs: number): Promise<LedgerHistory> {
  const admittedAtMs = new Map<string, number>();
  const settled = new Map<string, number>();
  const swept = new Set<string>();
  const written = new Set<string>();
  for (const [name = "", key = "", ...values] of await commandsOf(redis)) {
    const command = name.toUpperCase();
    if (command === "HSET" && key.endsWith("}:live")) {
      for (let i = 0; i < values.length; i += 2) written.add(values[i] ?? "");
    }
    if (command === "ZADD" && key.endsWith("}:leases")) {
      for (let i = 0; i + 1 < values.length; i += 2) {
        const requestId = values[i + 1] ?? "";
        // Admissions and renewals write the request and then its lease; sweeps write only the lease.
        if (!written.delete(requestId)) swept.add(requestId);
        else if (!admittedAtMs.has(requestId)) admittedAtMs.set(requestId, Number(values[i]) - leaseMs);
      }
    }
    const requestId = /\}:end:(.+)$/.exec(key)?.[1];
    if (command === "SET" && requestId !== undefined) {
      settled.set(requestId, (settled.get(requestId) ?? 0) + 1);
    }
  }
  return { admittedAtMs, settled, swept };
}

/** Claim times of each delivery, ascending, by the server's clock. A claim is stored as the end of its lease. */
export async function claimHistory(redis: RedisProcess, leaseMs: number): Promise<ReadonlyMap<string, number[]>> {
  const claimedAtMs = new Map<string, number[]>();
  for (const [command = "", key = "", ...values] of await commandsOf(redis)) {
    if (command.toUpperCase() !== "ZADD" || !key.endsWith("}:claims")) continue;
    for (let i = 0; i + 1 < values.length; i += 2) {
      const [endsAtUs, deliveryId = ""] = values.slice(i, i + 2);
      const times = claimedAtMs.get(deliveryId) ?? [];
      claimedAtMs.set(deliveryId, times);
      times.push(Number(endsAtUs) / 1_000 - leaseMs);
    }
  }
  return claimedAtMs;
}

/** All commands in the append-only file, in order, each as its words. */
async function commandsOf({ folder }: RedisProcess): Promise<string[][]> {
  const aofFolder = join(folder, "appendonlydir");
  const names = (await readdir(aofFolder)).filter((name) => name.endsWith(".incr.aof"));
  if (names.length !== 1) throw new Error(`the append-only file was rewritten: ${names.join(", ")}`);
  const bytes = await readFile(join(aofFolder, names[0] ?? ""));
  const commands: string[][] = [];
  let at = 0;
  /** A line of the protocol: one letter and a number. */
  const readNumber = (): number => {
    const end = bytes.indexOf("\r\n", at);
    const value = Number(bytes.toString("latin1", at + 1, end));
    at = end + 2;
    return value;
  };
  while (at < bytes.length) {
    const words = Array.from({ length: readNumber() }, () => {
      const length = readNumber();
      const word = bytes.toString("utf8", at, at + length);
      at += length + 2;
      return word;
    });
    commands.push(words);
  }
  return commands;
}
