import { type Period, periodAt, type UsageScope, type UsageSums } from "../../domain/events/threshold.js";
import {
  type GroupedUsage,
  lastName,
  type UsageCursor,
  type UsageGroupsQuery,
  type UsageRange,
  type UsageRow,
} from "../../domain/metering/usage-store.js";
import {
  bigint,
  integer,
  readExactly,
  type SqliteDatabase,
  type SqliteStatement,
  type SqlRow,
  text,
} from "./database/sqlite.js";

const hourMs = 3_600_000;
const accountsMax = 10_000;
/** Rows that one slice of a query reads. */
const sliceRows = 2_000;

const sums = "requests, prompt_tokens, completion_tokens, cached_tokens, cost_nano";
const addedSums = sums.replace(/\w+/g, "$& = $& + excluded.$&");
/** How the administrator's rows, which have no key, are kept. */
const noKey = "";

/** What one settled request adds, beside the one request that it is. */
export interface UsageDelta {
  readonly account: string;
  /** Null: the administrator. */
  readonly keyId: string | null;
  readonly model: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly costNano: number;
}

/** What requests of one hour, account, key and model add together. */
interface Added extends Omit<UsageDelta, "promptTokens" | "completionTokens" | "cachedTokens" | "costNano"> {
  readonly hourStartMs: number;
  requests: number;
  promptTokens: number;
  completionTokens: number;
  cachedTokens: number;
  costNano: number;
}

/** Sums of settled requests: how a settlement adds to them, and the verbs of UsageReader, synchronous, each one step. */
export function createUsageRows(db: SqliteDatabase) {
  const addHour = db.prepare(upsert("usage_hours", "account, start_ms, key_id, model"));
  const addDay = db.prepare(upsert("usage_days", "account, start_ms, key_id, model"));
  const addPeriod = db.prepare(upsert("period_sums", "account, scope_kind, scope_id, period_kind, start_ms"));
  const rowsOf = (table: string): SqliteStatement =>
    readExactly(
      db.prepare(
        `SELECT * FROM ${table} WHERE account = ? AND start_ms >= ? AND start_ms < ? ORDER BY start_ms, key_id, model`,
      ),
    );
  const rowsBy = { hour: rowsOf("usage_hours"), day: rowsOf("usage_days") };
  /** The position of the last row of a slice; none: the slice has the rest. */
  const sliceEndBy = bothTables((table) =>
    db.prepare(
      `SELECT start_ms, key_id, model FROM ${table}
       WHERE account = ? AND (start_ms, key_id, model) > (?, ?, ?) AND start_ms < ?
       ORDER BY start_ms, key_id, model LIMIT 1 OFFSET ${sliceRows - 1}`,
    ),
  );
  const sliceBy = bothTables((table) => (columns: string) => {
    const shown = ["key_id", "model"].map((name) => (columns.includes(name) ? name : `NULL AS ${name}`)).join(", ");
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
  // From one account to the next in the primary key: as many steps as accounts, however many rows they have.
  const accounts = db.prepare(
    `WITH RECURSIVE used (account) AS (
       SELECT min(account) FROM usage_days
       UNION ALL
       SELECT (SELECT min(account) FROM usage_days WHERE account > used.account) FROM used WHERE account IS NOT NULL
     )
     SELECT account FROM used WHERE account IS NOT NULL UNION SELECT account FROM api_keys
     ORDER BY account LIMIT ${accountsMax}`,
  );

  let added = new Map<string, Added>();

  const writeOne = (one: Added): void => {
    const { account, keyId, model, hourStartMs } = one;
    const amounts = [one.requests, one.promptTokens, one.completionTokens, one.cachedTokens, one.costNano];
    const day = periodAt("day", hourStartMs);
    addHour.run(account, hourStartMs, keyId ?? noKey, model, ...amounts);
    addDay.run(account, day.startMs, keyId ?? noKey, model, ...amounts);
    for (const period of [day, periodAt("month", hourStartMs)]) {
      addPeriod.run(account, "account", account, period.kind, period.startMs, ...amounts);
      if (keyId !== null) addPeriod.run(account, "key", keyId, period.kind, period.startMs, ...amounts);
    }
  };
  const writeAdded = (): void => {
    if (added.size === 0) return;
    for (const one of added.values()) writeOne(one);
    added = new Map();
  };

  return {
    /**
     * Adds one request to the hour, the day and the month that hold `atMs`, at the end of the transaction: requests of
     * one line are added together first, as far as numbers are exact.
     */
    add(delta: UsageDelta, atMs: number): void {
      const { account, keyId, model, promptTokens, completionTokens, cachedTokens, costNano } = delta;
      const hourStartMs = atMs - (atMs % hourMs);
      const name = `${hourStartMs}\n${account}\n${keyId ?? noKey}\n${model}`;
      const known = added.get(name);
      if (known === undefined || !isExactWith(known, delta)) {
        if (known !== undefined) writeAdded();
        const amounts = { requests: 1, promptTokens, completionTokens, cachedTokens, costNano };
        added.set(name, { account, keyId, model, hourStartMs, ...amounts });
        return;
      }
      known.requests += 1;
      known.promptTokens += promptTokens;
      known.completionTokens += completionTokens;
      known.cachedTokens += cachedTokens;
      known.costNano += costNano;
    },
    writeAdded,
    forgetAdded(): void {
      added = new Map();
    },
    /** With what was added in this transaction. */
    used(account: string, scope: UsageScope, period: Period): UsageSums {
      writeAdded();
      const row = used.get(account, scope.kind, scope.id, period.kind, period.startMs);
      return row === undefined ? noUsage : toSums(row);
    },
    rows: ({ account, width, fromMs, toMs }: UsageRange): readonly UsageRow[] =>
      rowsBy[width].all(account, fromMs, toMs).map(toUsageRow),
    /** Sums of the next few thousand rows by bucket and group: a step of some milliseconds. */
    slice({ account, width, fromMs, toMs, groupBy, after }: Omit<UsageGroupsQuery, "groupsMax">): UsageSlice {
      const from = after ?? { startMs: fromMs, keyId: "", model: "" };
      const begin = [account, from.startMs, from.keyId, from.model];
      const row = sliceEndBy[width].get(...begin, toMs);
      const columns = `${groupBy.includes("key") ? ", key_id" : ""}${groupBy.includes("model") ? ", model" : ""}`;
      const name = `${width}${columns}`;
      const statement = slices.get(name) ?? sliceBy[width](columns);
      slices.set(name, statement);
      const end = row === undefined ? null : positionOf(row);
      const until = end ?? { startMs: toMs - 1, keyId: lastName, model: lastName };
      const rows = statement.all(...begin, until.startMs, until.keyId, until.model);
      return { groups: rows.map(toGroup), end };
    },
    accounts: (): readonly string[] => accounts.all().map((row) => text(row, "account")),
  };
}

export interface UsageSlice {
  readonly groups: readonly GroupedUsage[];
  /** Null: the range has no more rows. */
  readonly end: UsageCursor | null;
}

function bothTables<T>(create: (table: string) => T): { readonly hour: T; readonly day: T } {
  return { hour: create("usage_hours"), day: create("usage_days") };
}

function positionOf(row: SqlRow): UsageCursor {
  return { startMs: integer(row, "start_ms"), keyId: text(row, "key_id"), model: text(row, "model") };
}

function toGroup(row: SqlRow): GroupedUsage {
  const keyId = row["key_id"] === null ? noKey : text(row, "key_id");
  return {
    startMs: integer(row, "start_ms"),
    keyId: keyId === noKey ? null : keyId,
    model: row["model"] === null ? null : text(row, "model"),
    ...toSums(row),
  };
}

export type UsageRows = ReturnType<typeof createUsageRows>;

function isExactWith(added: Added, delta: UsageDelta): boolean {
  return (
    added.promptTokens + delta.promptTokens <= Number.MAX_SAFE_INTEGER &&
    added.completionTokens + delta.completionTokens <= Number.MAX_SAFE_INTEGER &&
    added.cachedTokens + delta.cachedTokens <= Number.MAX_SAFE_INTEGER &&
    added.costNano + delta.costNano <= Number.MAX_SAFE_INTEGER
  );
}

const noUsage: UsageSums = { requests: 0n, promptTokens: 0n, completionTokens: 0n, cachedTokens: 0n, costNano: 0n };

function upsert(table: string, key: string): string {
  const columns = `${key}, ${sums}`;
  const places = columns.replace(/\w+/g, "?");
  return `INSERT INTO ${table} (${columns}) VALUES (${places}) ON CONFLICT (${key}) DO UPDATE SET ${addedSums}`;
}

function toSums(row: SqlRow): UsageSums {
  return {
    requests: bigint(row, "requests"),
    promptTokens: bigint(row, "prompt_tokens"),
    completionTokens: bigint(row, "completion_tokens"),
    cachedTokens: bigint(row, "cached_tokens"),
    costNano: bigint(row, "cost_nano"),
  };
}

function toUsageRow(row: SqlRow): UsageRow {
  const keyId = text(row, "key_id");
  return {
    account: text(row, "account"),
    startMs: integer(row, "start_ms"),
    keyId: keyId === noKey ? null : keyId,
    model: text(row, "model"),
    ...toSums(row),
  };
}
