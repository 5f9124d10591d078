import { addUsageSums, type UsageSums } from "../../../domain/events/threshold.js";
import {
  type UsageCursor,
  UsageGrouping,
  type UsageReader,
  type UsageRow,
} from "../../../domain/metering/usage-store.js";
import { loadScript } from "../connection/client.js";
import { keySpace, shardCount } from "../connection/key-space.js";
import type { ScriptRunner } from "../connection/scripts.js";
import { daysKeptMs, hoursKeptMs, sumsKeptMs } from "./settlements.js";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const timeoutMs = 250;
/** Hashes that one call reads. */
const rowsPerCall = 64;
const accountsMax = 10_000;

type SumName = "r" | "p" | "c" | "h" | "n";
type Counts = Partial<Record<SumName, bigint>>;

/** Reads the sums of `settle.lua`. `accountsWithKeys` lists the accounts of the key store. */
export function createRedisUsage(
  runner: ScriptRunner,
  accountsWithKeys: () => Promise<readonly string[]>,
): UsageReader {
  const readUsage = loadScript("read-usage", ["prelude"]);
  const readAccounts = loadScript("read-accounts", ["prelude"]);

  /** Fields and values of each hash, alternating. */
  const read = async (format: string, names: readonly string[]): Promise<readonly (readonly string[])[]> => {
    const hashes: (readonly string[])[] = [];
    for (let from = 0; from < names.length; from += rowsPerCall) {
      const keys = [format, ...names.slice(from, from + rowsPerCall)];
      const { rest } = await runner.run(readUsage, keys, [], timeoutMs);
      hashes.push(...(rest as (readonly string[])[]));
    }
    return hashes;
  };

  const reader: UsageReader = {
    async rows({ account, width, fromMs, toMs }) {
      const shard = keySpace.shardOf(account);
      const [stepMs, keptMs] = width === "hour" ? [hourMs, hoursKeptMs] : [dayMs, daysKeptMs];
      const nowMs = runner.time.now();
      const oldestMs = Math.floor((nowMs - keptMs) / stepMs) * stepMs - stepMs;
      const starts: number[] = [];
      for (let at = Math.max(fromMs, oldestMs); at < toMs && at <= nowMs + stepMs; at += stepMs) starts.push(at);
      const hashes = await read(
        shard.format,
        starts.map((startMs) => shard.usageRows(account, width, startMs)),
      );
      return hashes.flatMap((fields, i) => rowsOf(account, starts[i] ?? 0, fields));
    },
    async groups(query, signal) {
      const { account, width, fromMs, toMs, after } = query;
      const stepMs = width === "hour" ? hourMs : dayMs;
      const grouping = new UsageGrouping(query);
      for (let startMs = Math.max(fromMs, after?.startMs ?? 0); startMs < toMs; startMs += stepMs) {
        signal.throwIfAborted();
        const rows = await reader.rows({ account, width, fromMs: startMs, toMs: startMs + stepMs });
        for (const row of rows) if (after === null || isAfter(row, after)) grouping.add(row);
        const page = grouping.page(startMs + stepMs);
        if (page !== null) return page;
      }
      return grouping.rest();
    },
    async accounts() {
      const names = new Set(await accountsWithKeys());
      for (let index = 0; index < shardCount; index++) {
        const { format, accounts } = keySpace.shard(index);
        const { rest } = await runner.run(readAccounts, [format, accounts], [daysKeptMs, accountsMax], timeoutMs);
        for (const name of rest as readonly string[]) names.add(name);
      }
      return [...names].sort().slice(0, accountsMax);
    },
    async used(account, scope, period) {
      const shard = keySpace.shardOf(account);
      if (runner.time.now() < period.endMs + sumsKeptMs) {
        const [fields = []] = await read(shard.format, [shard.sums(account, scope, period)]);
        return sumsOf(countsOf(fields));
      }
      // The sums have expired, their days have not.
      const days = await reader.rows({ account, width: "day", fromMs: period.startMs, toMs: period.endMs });
      return days
        .filter(({ keyId }) => scope.kind === "account" || keyId === scope.id)
        .reduce(addUsageSums, sumsOf({}));
    },
  };
  return reader;
}

function isAfter({ startMs, keyId, model }: UsageRow, after: UsageCursor): boolean {
  if (startMs !== after.startMs) return startMs > after.startMs;
  return (compareText(keyId ?? "", after.keyId) || compareText(model, after.model)) > 0;
}

/** Of one hour or day, by key and model. A field is `<key or "">|<model>|<sum>`. */
function rowsOf(account: string, startMs: number, fields: readonly string[]): readonly UsageRow[] {
  const byLine = new Map<string, { keyId: string | null; model: string; counts: Counts }>();
  for (let i = 0; i < fields.length; i += 2) {
    const [key = "", model = "", name = ""] = (fields[i] ?? "").split("|");
    if (!isSumName(name)) continue;
    const id = `${key}|${model}`;
    const line = byLine.get(id) ?? { keyId: key === "" ? null : key, model, counts: {} };
    line.counts[name] = BigInt(fields[i + 1] ?? "0");
    byLine.set(id, line);
  }
  return [...byLine.values()]
    .sort((a, b) => compareText(a.keyId ?? "", b.keyId ?? "") || compareText(a.model, b.model))
    .map(({ keyId, model, counts }) => ({ account, startMs, keyId, model, ...sumsOf(counts) }));
}

function countsOf(fields: readonly string[]): Counts {
  const counts: Counts = {};
  for (let i = 0; i < fields.length; i += 2) {
    const name = fields[i] ?? "";
    if (isSumName(name)) counts[name] = BigInt(fields[i + 1] ?? "0");
  }
  return counts;
}

function isSumName(name: string): name is SumName {
  return name === "r" || name === "p" || name === "c" || name === "h" || name === "n";
}

function sumsOf({ r = 0n, p = 0n, c = 0n, h = 0n, n = 0n }: Counts): UsageSums {
  return { requests: r, promptTokens: p, completionTokens: c, cachedTokens: h, costNano: n };
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
