import type { Metric, PeriodKind, Threshold } from "../../domain/events/threshold.js";
import { bigint, integer, readExactly, type SqliteDatabase, type SqlRow, text } from "./database/sqlite.js";

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
