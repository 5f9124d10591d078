import { addUsageSums, type UsageSums } from "../../../domain/events/events.js";
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
/** Timeout of reads of usage. It is long, because only the caller waits for it (REL-15). */
const timeoutMs = 5_000;
/** Maximum number of hashes that one call reads. */
const rowsPerCall = 64;
const accountsMax = 10_000;

/** Fields and values of a hash. */
type Pairs = readonly (readonly [field: string, value: string])[];

/** Reads the sums of `settle.lua`. `accountsWithKeys` lists the accounts of the key store. */
export function createRedisUsage(
  runner: ScriptRunner,
  accountsWithKeys: () => Promise<readonly string[]>,
): UsageReader {
  const readUsage = loadScript("read-usage", ["prelude"]);
  const readAccounts = loadScript("read-accounts", ["prelude"]);

  const read = async (format: string, names: readonly string[]): Promise<readonly Pairs[]> => {
    const hashes: Pairs[] = [];
    for (let from = 0; from < names.length; from += rowsPerCall) {
      const keys = [format, ...names.slice(from, from + rowsPerCall)];
      const { rest } = await runner.run(readUsage, keys, [], timeoutMs);
      for (const flat of rest as readonly (readonly string[])[]) {
        hashes.push(flat.flatMap((field, i) => (i % 2 === 0 ? [[field, flat[i + 1] ?? "0"] as const] : [])));
      }
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
      return hashes.flatMap((pairs, i) => rowsOf(account, starts[i] ?? 0, pairs));
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
        const [pairs = []] = await read(shard.format, [shard.sums(account, scope, period)]);
        return sumsOf(Object.fromEntries(pairs));
      }
      // The sums of the period have expired, but the rows of its days have not.
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

type Fields = Record<string, string>;

/** Fields of one key and model. */
interface RowFields {
  readonly keyId: string | null;
  readonly model: string;
  /** Sums over all operations. */
  readonly sums: Fields;
  readonly byOperation: Map<string, Fields>;
}

/**
 * Rows of one hour or day by key, model and operation. A field is `<key or "">|<model>|<sum>` or, of one operation,
 * `<key or "">|<model>|<operation>.<sum>`.
 */
function rowsOf(account: string, startMs: number, pairs: Pairs): readonly UsageRow[] {
  const byLine = new Map<string, RowFields>();
  for (const [field, value] of pairs) {
    const [key = "", model = "", name = ""] = field.split("|");
    const line = byLine.get(`${key}|${model}`) ?? { keyId: key || null, model, sums: {}, byOperation: new Map() };
    byLine.set(`${key}|${model}`, line);
    const [sum = "", operation] = name.split(".").reverse();
    const fields = operation === undefined ? line.sums : (line.byOperation.get(operation) ?? {});
    if (operation !== undefined) line.byOperation.set(operation, fields);
    fields[sum] = value;
  }
  return [...byLine.values()]
    .sort((a, b) => compareText(a.keyId ?? "", b.keyId ?? "") || compareText(a.model, b.model))
    .flatMap(({ keyId, model, sums, byOperation }) =>
      sumsByOperation(sums, byOperation).map((row) => ({ account, startMs, keyId, model, ...row })),
    );
}

/**
 * One row per operation, and one row without an operation for usage written by an earlier version, which only sums over all
 * operations.
 */
function sumsByOperation(all: Fields, byOperation: RowFields["byOperation"]) {
  const rows = [...byOperation]
    .sort(([a], [b]) => compareText(a, b))
    .map(([operation, fields]) => ({ operation, ...sumsOf(fields) }));
  const rest = rows.reduce((left, row) => subtract(left, row), sumsOf(all));
  return rest.requests > 0n ? [{ operation: null, ...rest }, ...rows] : rows;
}

function subtract(a: UsageSums, b: UsageSums): UsageSums {
  return {
    requests: a.requests - b.requests,
    promptTokens: a.promptTokens - b.promptTokens,
    completionTokens: a.completionTokens - b.completionTokens,
    cachedTokens: a.cachedTokens - b.cachedTokens,
    costNano: a.costNano - b.costNano,
  };
}

/** Sums by their letters, int64 as text. Other fields are ignored. */
function sumsOf({ r = "0", p = "0", c = "0", h = "0", n = "0" }: Readonly<Record<string, string>>): UsageSums {
  return {
    requests: BigInt(r),
    promptTokens: BigInt(p),
    completionTokens: BigInt(c),
    cachedTokens: BigInt(h),
    costNano: BigInt(n),
  };
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
