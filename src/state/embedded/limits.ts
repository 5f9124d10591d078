import type { StateChange } from "../../domain/call/ports.js";
import type { LimitOwner, RateLimits } from "../../domain/call/rate-limits.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { Threshold, ThresholdStore } from "../../domain/events/events.js";
import type { LimitStore, StoredLimits } from "../../domain/metering/limit-book.js";
import { columnsOf, integer, type SqliteDatabase, text } from "./database/sqlite.js";
import type { StoreLink } from "./database/worker-link.js";

const limitsMax = 10_000;
const thresholdsListedMax = 10_000;
const limitColumns = columnsOf<RateLimits>("requests_per_minute, tokens_per_minute, concurrency");
/** All columns except the limit, which may exceed the precision of a number. */
const thresholdColumns = columnsOf<Omit<Threshold, "limit">>(
  "id, account, api_key_id, metric, period, action, created_at_ms, updated_at_ms, percents_json",
);

/** Limits of accounts and models, and thresholds, in the database. */
export function createLimitVerbs(db: SqliteDatabase) {
  const limits = db.prepare("SELECT * FROM limits ORDER BY owner_kind, owner_id");
  // If the table is full, limits of an owner that has a row can still be changed.
  const putLimits = db.prepare(
    `INSERT INTO limits (owner_kind, owner_id, updated_at_ms, ${limitColumns.names})
     SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE (SELECT count(*) FROM limits) < ${limitsMax}
       OR EXISTS (SELECT 1 FROM limits WHERE owner_kind = ?1 AND owner_id = ?2)
     ON CONFLICT (owner_kind, owner_id) DO UPDATE SET (updated_at_ms, ${limitColumns.names}) = (?3, ?4, ?5, ?6)`,
  );
  const removeLimits = db.prepare("DELETE FROM limits WHERE owner_kind = ? AND owner_id = ?");
  const thresholds = db.prepare(
    `SELECT ${thresholdColumns.names}, CAST(limit_value AS TEXT) AS limit_text FROM thresholds
     ORDER BY created_at_ms, id LIMIT ${thresholdsListedMax}`,
  );
  const insert = db.prepare(
    `INSERT INTO thresholds (${thresholdColumns.names}, limit_value) VALUES (${thresholdColumns.placeholders}, ?)`,
  );
  const remove = db.prepare("DELETE FROM thresholds WHERE id = ?");
  const insertThreshold = (threshold: Threshold): void => {
    insert.run(...thresholdColumns.values(threshold), threshold.limit);
  };
  const removeThreshold = (id: string): boolean => Number(remove.run(id).changes) === 1;
  return {
    reads: {
      listLimits: (): readonly StoredLimits[] =>
        limits.all().map((row) => ({
          owner: { kind: text(row, "owner_kind") as LimitOwner["kind"], id: text(row, "owner_id") },
          limits: limitColumns.read(row),
          updatedAtMs: integer(row, "updated_at_ms"),
        })),
      listThresholds: (): readonly Threshold[] =>
        thresholds.all().map((row) => {
          const threshold = thresholdColumns.read(row);
          const action = threshold.action === "refuse" ? "refuse" : "notify";
          return { ...threshold, action, limit: BigInt(text(row, "limit_text")) };
        }),
    },
    writes: {
      /** False: the table is full. */
      putLimits: ({ owner, limits, updatedAtMs }: StoredLimits): boolean =>
        Number(putLimits.run(owner.kind, owner.id, updatedAtMs, ...limitColumns.values(limits)).changes) === 1,
      removeLimits: ({ kind, id }: LimitOwner): boolean => Number(removeLimits.run(kind, id).changes) === 1,
      insertThreshold,
      replaceThreshold(threshold: Threshold): boolean {
        const exists = removeThreshold(threshold.id);
        if (exists) insertThreshold(threshold);
        return exists;
      },
      removeThreshold,
    },
  };
}

type LimitLink = StoreLink<ReturnType<typeof createLimitVerbs>>;

export function createLimitStore(link: LimitLink, notify: (change: StateChange) => void): LimitStore {
  return {
    list: () => link.read("listLimits"),
    async put(limits) {
      const isPut = await link.write("putLimits", limits);
      if (!isPut) throw new ServiceError("storage_unavailable", `The store holds its ${limitsMax} limits.`);
      notify({ kind: "limits" });
    },
    async remove(owner) {
      const isRemoved = await link.write("removeLimits", owner);
      if (isRemoved) notify({ kind: "limits" });
      return isRemoved;
    },
  };
}

export function createThresholdStore(link: LimitLink, notify: (change: StateChange) => void): ThresholdStore {
  const changed = (isChanged: boolean): boolean => {
    if (isChanged) notify({ kind: "thresholds" });
    return isChanged;
  };
  return {
    list: () => link.read("listThresholds"),
    async insert(threshold) {
      await link.write("insertThreshold", threshold);
      changed(true);
    },
    replace: async (threshold) => changed(await link.write("replaceThreshold", threshold)),
    remove: async (id) => changed(await link.write("removeThreshold", id)),
  };
}
