import type { LimitOwner, RateLimits } from "../../domain/call/rate-limits.js";
import type { Metric, PeriodKind, Threshold } from "../../domain/events/threshold.js";
import type { StoredLimits } from "../../domain/metering/limit-book.js";
import {
  bigint,
  integer,
  integerOrNull,
  readExactly,
  type SqliteDatabase,
  type SqlRow,
  text,
} from "./database/sqlite.js";

const limitsMax = 10_000;

/** Limits of accounts and models: the verbs of LimitStore, synchronous, each one step. */
export function createLimitRows(db: SqliteDatabase) {
  const all = db.prepare("SELECT * FROM limits ORDER BY owner_kind, owner_id");
  // What is there may be replaced when the table is full.
  const put = db.prepare(
    `INSERT INTO limits (owner_kind, owner_id, requests_per_minute, tokens_per_minute, concurrency, updated_at_ms)
     SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE (SELECT count(*) FROM limits) < ${limitsMax}
       OR EXISTS (SELECT 1 FROM limits WHERE owner_kind = ?1 AND owner_id = ?2)
     ON CONFLICT (owner_kind, owner_id) DO UPDATE SET requests_per_minute = excluded.requests_per_minute,
       tokens_per_minute = excluded.tokens_per_minute, concurrency = excluded.concurrency,
       updated_at_ms = excluded.updated_at_ms`,
  );
  const remove = db.prepare("DELETE FROM limits WHERE owner_kind = ? AND owner_id = ?");
  return {
    list: (): readonly StoredLimits[] => all.all().map(toStoredLimits),
    /** False: 10,000 are kept. */
    put({ owner, limits, updatedAtMs }: StoredLimits): boolean {
      const { requestsPerMinute, tokensPerMinute, concurrency } = limits;
      const values = [owner.kind, owner.id, requestsPerMinute, tokensPerMinute, concurrency, updatedAtMs];
      return Number(put.run(...values).changes) === 1;
    },
    remove: ({ kind, id }: LimitOwner): boolean => Number(remove.run(kind, id).changes) === 1,
  };
}

/** The three columns that keys, accounts and models have alike. */
export function toRateLimits(row: SqlRow): RateLimits {
  return {
    requestsPerMinute: integerOrNull(row, "requests_per_minute"),
    tokensPerMinute: integerOrNull(row, "tokens_per_minute"),
    concurrency: integerOrNull(row, "concurrency"),
  };
}

function toStoredLimits(row: SqlRow): StoredLimits {
  const kind = text(row, "owner_kind") as LimitOwner["kind"];
  return {
    owner: { kind, id: text(row, "owner_id") },
    limits: toRateLimits(row),
    updatedAtMs: integer(row, "updated_at_ms"),
  };
}

const listedMax = 10_000;

/** Thresholds: the verbs of ThresholdStore, synchronous, each one step. */
export function createThresholdRows(db: SqliteDatabase) {
  const list = readExactly(db.prepare(`SELECT * FROM thresholds ORDER BY created_at_ms, id LIMIT ${listedMax}`));
  const insert = db.prepare(
    `INSERT INTO thresholds (id, account, api_key_id, metric, period, limit_value, percents_json, action, created_at_ms,
       updated_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const remove = db.prepare("DELETE FROM thresholds WHERE id = ?");
  const removeById = (id: string): boolean => Number(remove.run(id).changes) === 1;
  const insertOne = (threshold: Threshold): void => {
    insert.run(
      threshold.id,
      threshold.account,
      threshold.apiKeyId,
      threshold.metric,
      threshold.period,
      threshold.limit,
      JSON.stringify(threshold.percents),
      threshold.action,
      threshold.createdAtMs,
      threshold.updatedAtMs,
    );
  };
  return {
    list: (): readonly Threshold[] => list.all().map(toThreshold),
    insert: insertOne,
    replace(threshold: Threshold): boolean {
      const was = removeById(threshold.id);
      if (was) insertOne(threshold);
      return was;
    },
    remove: removeById,
  };
}

function toThreshold(row: SqlRow): Threshold {
  return {
    id: text(row, "id"),
    account: text(row, "account"),
    apiKeyId: row["api_key_id"] === null ? null : text(row, "api_key_id"),
    metric: text(row, "metric") as Metric,
    period: text(row, "period") as PeriodKind,
    limit: bigint(row, "limit_value"),
    percents: JSON.parse(text(row, "percents_json")) as number[],
    action: row["action"] === "refuse" ? "refuse" : "notify",
    createdAtMs: integer(row, "created_at_ms"),
    updatedAtMs: integer(row, "updated_at_ms"),
  };
}
