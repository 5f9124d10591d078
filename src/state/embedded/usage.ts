import { inferenceNames } from "../../contract/operations.js";
import { type Period, periodAt, type UsageScope, type UsageSums } from "../../domain/events/events.js";
import type { Settlement } from "../../domain/metering/ledger.js";
import {
  type GroupedUsage,
  lastName,
  type UsageCursor,
  UsageGrouping,
  type UsageGroupsQuery,
  type UsageRange,
  type UsageReader,
  type UsageRow,
} from "../../domain/metering/usage-store.js";
import { Turns } from "../../lib/clock.js";
import {
  bigint,
  type CollectedRows,
  integer,
  readExactly,
  type SqliteDatabase,
  type SqliteStatement,
  type SqlRow,
  text,
  textOrNull,
} from "./database/sqlite.js";
import type { StoreLink } from "./database/worker-link.js";

const hourMs = 3_600_000;
const accountsMax = 10_000;
/** Target duration of one slice of a query in the store's thread: settlements wait for it. */
const sliceMs = 4;
/** Bounds of the number of rows of a slice, which is adapted to the speed of the earlier slices. */
const sliceRows = { first: 250, least: 50, most: 2_000 } as const;
/** Groups that are added up in well under a millisecond. */
const groupsPerStep = 100;

const sums = "requests, prompt_tokens, completion_tokens, cached_tokens, cost_nano";
const addedSums = sums.replace(/\w+/g, "$& = $& + excluded.$&");
/** Value of the column `key_id` for requests of the administrator, which have no key. */
const noKey = "";
/** Value of the column `operation` in rows of earlier versions, which summed over all operations. */
const noOperation = "";
const rowKey = "account, start_ms, key_id, model, operation";

/** Sums that one settled request adds, in addition to the request itself. `keyId` is null for the administrator. */
export type UsageDelta = Pick<
  Settlement,
  "account" | "keyId" | "model" | "operation" | "promptTokens" | "completionTokens" | "cachedTokens" | "costNano"
>;

/** Sum over requests of one hour, account, key, model and operation. */
type HourSum = { -readonly [F in keyof UsageDelta]: UsageDelta[F] } & {
  readonly hourStartMs: number;
  requests: number;
};

/** Sums of settled requests. */
export function createUsageVerbs(db: SqliteDatabase, collected: CollectedRows) {
  const addHour = db.prepare(upsert("usage_hours", rowKey));
  const addDay = db.prepare(upsert("usage_days", rowKey));
  // Adds all periods of a sum in one statement: a call of the SQLite binding costs more than its row.
  const addPeriods = db.prepare(
    upsertPeriods(["?1, 'account', ?1, 'day', ?2", "?1, 'account', ?1, 'month', ?3"], "?4, ?5, ?6, ?7, ?8"),
  );
  const addPeriodsOfKey = db.prepare(
    upsertPeriods(
      [
        "?1, 'account', ?1, 'day', ?2",
        "?1, 'account', ?1, 'month', ?3",
        "?1, 'key', ?4, 'day', ?2",
        "?1, 'key', ?4, 'month', ?3",
      ],
      "?5, ?6, ?7, ?8, ?9",
    ),
  );
  const rowsBy = byWidth((table) =>
    readExactly(
      db.prepare(
        `SELECT * FROM ${table} WHERE account = ? AND start_ms >= ? AND start_ms < ?
         ORDER BY start_ms, key_id, model, operation`,
      ),
    ),
  );
  /** Finds the position of the last row of a slice; if there is none, the slice contains all remaining rows. */
  const sliceEndBy = byWidth((table) =>
    db.prepare(
      `SELECT start_ms, key_id, model FROM ${table}
       WHERE account = ? AND (start_ms, key_id, model) > (?, ?, ?) AND start_ms < ?
       ORDER BY start_ms, key_id, model LIMIT 1 OFFSET ?`,
    ),
  );
  const names = ["key_id", "model", "operation"];
  const sliceBy = byWidth((table) => (columns: string) => {
    const shown = names.map((name) => (columns.includes(name) ? name : `NULL AS ${name}`)).join(", ");
    return readExactly(
      db.prepare(
        `SELECT start_ms, ${shown}, ${sums.replace(/\w+/g, "sum($&) AS $&")} FROM ${table}
         WHERE account = ? AND (start_ms, key_id, model) > (?, ?, ?) AND (start_ms, key_id, model) <= (?, ?, ?)
         GROUP BY start_ms${columns} ORDER BY start_ms${columns}`,
      ),
    );
  });
  const slices = new Map<string, SqliteStatement>();
  const used = readExactly(
    db.prepare(
      `SELECT ${sums} FROM period_sums
       WHERE account = ? AND scope_kind = ? AND scope_id = ? AND period_kind = ? AND start_ms = ?`,
    ),
  );
  // Jumps from one account to the next in the primary key, so the number of steps does not depend on the number of rows.
  const accounts = db.prepare(
    `WITH RECURSIVE used (account) AS (
       SELECT min(account) FROM usage_days
       UNION ALL
       SELECT (SELECT min(account) FROM usage_days WHERE account > used.account) FROM used WHERE account IS NOT NULL
     )
     SELECT account FROM used WHERE account IS NOT NULL UNION SELECT account FROM api_keys
     ORDER BY account LIMIT ${accountsMax}`,
  );

  /** Name of the sum that was used last. Most requests add to the same sum, and reusing the string avoids hashing it again. */
  let last = {
    hourStartMs: -1,
    account: "",
    keyId: "" as string | null,
    model: "",
    operation: "rerank" as UsageDelta["operation"],
    name: "",
  };
  const added = collected.of<HourSum>((all) => {
    for (const sum of all.values()) {
      const { account, keyId, model, hourStartMs } = sum;
      const operation = inferenceNames.get(sum.operation) ?? noOperation;
      const amounts = [sum.requests, sum.promptTokens, sum.completionTokens, sum.cachedTokens, sum.costNano];
      const day = periodAt("day", hourStartMs);
      addHour.run(account, hourStartMs, keyId ?? noKey, model, operation, ...amounts);
      addDay.run(account, day.startMs, keyId ?? noKey, model, operation, ...amounts);
      const month = periodAt("month", hourStartMs);
      if (keyId === null) addPeriods.run(account, day.startMs, month.startMs, ...amounts);
      else addPeriodsOfKey.run(account, day.startMs, month.startMs, keyId, ...amounts);
    }
  });

  return {
    /**
     * Adds one request to the hour, the day and the month that contain `atMs`, at the end of the transaction. Requests of
     * one hour, account, key, model and operation are added up first, as long as a number represents the sum exactly.
     */
    add(delta: UsageDelta, atMs: number): void {
      const { account, keyId, model, operation, promptTokens, completionTokens, cachedTokens, costNano } = delta;
      const hourStartMs = atMs - (atMs % hourMs);
      if (
        hourStartMs !== last.hourStartMs ||
        account !== last.account ||
        keyId !== last.keyId ||
        model !== last.model ||
        operation !== last.operation
      ) {
        const name = `${hourStartMs}\n${account}\n${keyId ?? noKey}\n${model}\n${operation}`;
        last = { hourStartMs, account, keyId, model, operation, name };
      }
      const { name } = last;
      const sum = added.get(name);
      if (sum === undefined || !isExactWith(sum, delta)) {
        if (sum !== undefined) added.write();
        const amounts = { requests: 1, promptTokens, completionTokens, cachedTokens, costNano };
        added.set(name, { account, keyId, model, operation, hourStartMs, ...amounts });
        return;
      }
      sum.requests += 1;
      sum.promptTokens += promptTokens;
      sum.completionTokens += completionTokens;
      sum.cachedTokens += cachedTokens;
      sum.costNano += costNano;
    },
    reads: {
      /** Sums of a period, including what this transaction has added. */
      used(account: string, scope: UsageScope, period: Period): UsageSums {
        added.write();
        const row = used.get(account, scope.kind, scope.id, period.kind, period.startMs);
        return row === undefined ? noUsage : toSums(row);
      },
      usageRows: ({ account, width, fromMs, toMs }: UsageRange): readonly UsageRow[] =>
        rowsBy[width].all(account, fromMs, toMs).map((row) => {
          const model = text(row, "model");
          return { account, ...toGroup(row), model };
        }),
      /** Sums of the next `rowsMax` rows by bucket and group. The operations of one position stay together. */
      usageSlice(query: Omit<UsageGroupsQuery, "groupsMax">, rowsMax: number): UsageSlice {
        const { account, width, fromMs, toMs, groupBy, after } = query;
        const beganAtMs = performance.now();
        const from = after ?? { startMs: fromMs, keyId: "", model: "" };
        const begin = [account, from.startMs, from.keyId, from.model];
        const row = sliceEndBy[width].get(...begin, toMs, rowsMax - 1);
        const columns = (["key", "model", "operation"] as const)
          .map((group, i) => (groupBy.includes(group) ? `, ${names[i]}` : ""))
          .join("");
        const name = `${width}${columns}`;
        const statement = slices.get(name) ?? sliceBy[width](columns);
        slices.set(name, statement);
        const end = row === undefined ? null : positionOf(row);
        const until = end ?? { startMs: toMs - 1, keyId: lastName, model: lastName };
        const rows = statement.all(...begin, until.startMs, until.keyId, until.model);
        return { groups: rows.map(toGroup), end, tookMs: performance.now() - beganAtMs };
      },
      accounts: (): readonly string[] => accounts.all().map((row) => text(row, "account")),
    },
    writes: {},
  };
}

export type UsageVerbs = ReturnType<typeof createUsageVerbs>;

export interface UsageSlice {
  readonly groups: readonly GroupedUsage[];
  /** Null: the range has no more rows. */
  readonly end: UsageCursor | null;
  readonly tookMs: number;
}

/** Sums groups in slices, so that settlements run between them. */
export function createUsageReader(link: StoreLink<UsageVerbs>): UsageReader {
  let rowsMax: number = sliceRows.first;
  const slice = async (query: UsageGroupsQuery, after: UsageCursor | null): Promise<UsageSlice> => {
    const read = await link.scan("usageSlice", { ...query, after }, rowsMax);
    const { least, most } = sliceRows;
    if (read.end !== null) rowsMax = Math.min(most, Math.max(least, Math.round((rowsMax * sliceMs) / read.tookMs)));
    return read;
  };
  return {
    rows: (range) => link.read("usageRows", range),
    async groups(query, signal) {
      const grouping = new UsageGrouping(query);
      const turns = new Turns();
      let after = query.after;
      do {
        signal.throwIfAborted();
        const { groups, end } = await slice(query, after);
        for (const [i, group] of groups.entries()) {
          grouping.add(group);
          if (i % groupsPerStep === 0) await turns.next();
        }
        const page = end === null ? grouping.rest() : grouping.page(end.startMs);
        if (page !== null) return page;
        after = end;
      } while (after !== null);
      return grouping.rest();
    },
    accounts: () => link.read("accounts"),
    used: (account, scope, period) => link.read("used", account, scope, period),
  };
}

function byWidth<T>(create: (table: string) => T): { readonly hour: T; readonly day: T } {
  return { hour: create("usage_hours"), day: create("usage_days") };
}

function positionOf(row: SqlRow): UsageCursor {
  return { startMs: integer(row, "start_ms"), keyId: text(row, "key_id"), model: text(row, "model") };
}

function toGroup(row: SqlRow): GroupedUsage {
  const keyId = textOrNull(row, "key_id") ?? noKey;
  const operation = textOrNull(row, "operation") ?? noOperation;
  return {
    startMs: integer(row, "start_ms"),
    keyId: keyId === noKey ? null : keyId,
    model: textOrNull(row, "model"),
    operation: operation === noOperation ? null : operation,
    ...toSums(row),
  };
}

function isExactWith(sum: HourSum, delta: UsageDelta): boolean {
  return (
    sum.promptTokens + delta.promptTokens <= Number.MAX_SAFE_INTEGER &&
    sum.completionTokens + delta.completionTokens <= Number.MAX_SAFE_INTEGER &&
    sum.cachedTokens + delta.cachedTokens <= Number.MAX_SAFE_INTEGER &&
    sum.costNano + delta.costNano <= Number.MAX_SAFE_INTEGER
  );
}

const noUsage: UsageSums = { requests: 0n, promptTokens: 0n, completionTokens: 0n, cachedTokens: 0n, costNano: 0n };

/** Adds `amounts`, the parameters of the sums, to the period of each of `rows`. */
function upsertPeriods(rows: readonly string[], amounts: string): string {
  const key = "account, scope_kind, scope_id, period_kind, start_ms";
  const values = rows.map((row) => `(${row}, ${amounts})`).join(", ");
  return `INSERT INTO period_sums (${key}, ${sums}) VALUES ${values} ON CONFLICT (${key}) DO UPDATE SET ${addedSums}`;
}

function upsert(table: string, key: string): string {
  const columns = `${key}, ${sums}`;
  const placeholders = columns.replace(/\w+/g, "?");
  return `INSERT INTO ${table} (${columns}) VALUES (${placeholders}) ON CONFLICT (${key}) DO UPDATE SET ${addedSums}`;
}

export function toSums(row: SqlRow): UsageSums {
  return {
    requests: bigint(row, "requests"),
    promptTokens: bigint(row, "prompt_tokens"),
    completionTokens: bigint(row, "completion_tokens"),
    cachedTokens: bigint(row, "cached_tokens"),
    costNano: bigint(row, "cost_nano"),
  };
}
