import {
  crossingMark,
  type Period,
  type PeriodKind,
  periodAt,
  type Threshold,
  thresholdEvent,
  type UsageScope,
  usageScopeOf,
  valuesOf,
} from "../../domain/events/events.js";
import type { ThresholdRow } from "./database/settlement-row.js";
import type { SqliteDatabase } from "./database/sqlite.js";
import type { Emit } from "./deliveries/fan-out.js";
import type { UsageDelta, UsageVerbs } from "./usage.js";

/** Sums of one account or key in one period, by metric. */
type RunningSum = Record<Threshold["metric"], bigint>;

/** A threshold in one period. */
interface Watched {
  readonly threshold: Threshold;
  readonly period: Period;
  readonly sum: RunningSum;
  /** The lowest value for which no event was written yet; null when all values have an event. */
  next: bigint | null;
}

/** Events of the values that a settlement has reached. */
interface Reached {
  /** Id of the threshold of each reached value. */
  readonly ids: readonly string[];
  /** Whether at least one of the events has a receiver. */
  readonly hasDue: boolean;
}

const nothingReached: Reached = Object.freeze({ ids: Object.freeze([]), hasDue: false });

/**
 * Compares the sums of a batch of settlements with thresholds. Sums are read once in a batch and then updated in memory, so
 * each further settlement or threshold only takes a comparison of numbers. An event contains the sum including the
 * settlement that reached the value. Returns the function that begins a batch.
 */
export function createThresholdChecks(db: SqliteDatabase, usage: UsageVerbs) {
  const cross = db.prepare("INSERT INTO crossings (mark, period_end_ms) VALUES (?, ?) ON CONFLICT DO NOTHING");
  const findCrossing = db.prepare("SELECT mark FROM crossings WHERE mark = ?");

  const nextOf = (threshold: Threshold, period: Period, sum: bigint): bigint | null => {
    for (const value of valuesOf(threshold)) {
      if (value.value > sum) return value.value;
      // The value is reached but has no event: the threshold was created or changed after it was reached (USE-5).
      if (findCrossing.get(crossingMark(threshold, value, period)) === undefined) return value.value;
    }
    return null;
  };

  return (lists: readonly (readonly ThresholdRow[])[], emit: Emit) => {
    const thresholds = lists.map((list) => list.map((row): Threshold => ({ ...row, limit: BigInt(row.limit) })));
    const sums = new Map<string, RunningSum>();
    const watchedBy = new Map<string, readonly Watched[]>();
    let isEmpty = true;

    const sumOf = (account: string, scope: UsageScope, period: Period): RunningSum => {
      const name = nameOf(account, scope.kind, scope.id, period.kind, period.startMs);
      let sum = sums.get(name);
      if (sum === undefined) {
        const { requests, promptTokens, completionTokens, costNano } = usage.reads.used(account, scope, period);
        sum = { requests, tokens: promptTokens + completionTokens, cost: costNano };
        sums.set(name, sum);
        isEmpty = false;
      }
      return sum;
    };

    const watch = (threshold: Threshold, atMs: number): Watched => {
      const period = periodAt(threshold.period, atMs);
      const sum = sumOf(threshold.account, usageScopeOf(threshold), period);
      return { threshold, period, sum, next: nextOf(threshold, period, sum[threshold.metric]) };
    };

    /** Emits an event for each value that the sum has reached for the first time in the period. */
    const emitReached = (watched: Watched, nowMs: number, ids: string[]): boolean => {
      const { threshold, period, sum } = watched;
      const reached = sum[threshold.metric];
      let hasDue = false;
      for (const value of valuesOf(threshold)) {
        if (reached < value.value) break;
        if (Number(cross.run(crossingMark(threshold, value, period), period.endMs).changes) === 0) continue;
        const { id, type, prefix, suffix } = thresholdEvent(threshold, value, period, nowMs);
        if (emit(threshold.account, { id, type, body: `${prefix}${reached}${suffix}` }, nowMs)) hasDue = true;
        ids.push(threshold.id);
      }
      watched.next = nextOf(threshold, period, reached);
      return hasDue;
    };

    return {
      /** The thresholds of a list in the periods of `atMs`. Call it before the settlement's usage is added. */
      watched(list: number, { account, keyId }: UsageDelta, atMs: number): readonly Watched[] {
        const name = `${list}\n${account}\n${keyId}\n${periodAt("day", atMs).startMs}`;
        let watched = watchedBy.get(name);
        if (watched === undefined) {
          watched = (thresholds[list] ?? []).map((threshold) => watch(threshold, atMs));
          watchedBy.set(name, watched);
        }
        return watched;
      },

      /** Adds a settlement to the sums that the batch has read. */
      add({ account, keyId, promptTokens, completionTokens, costNano }: UsageDelta, atMs: number): void {
        if (isEmpty) return;
        const tokens = BigInt(promptTokens + completionTokens);
        const cost = BigInt(costNano);
        for (const kind of ["day", "month"] as const) {
          const { startMs } = periodAt(kind, atMs);
          for (const [scope, id] of [
            ["account", account],
            ["key", keyId],
          ] as const) {
            const sum = id === null ? undefined : sums.get(nameOf(account, scope, id, kind, startMs));
            if (sum === undefined) continue;
            sum.requests += 1n;
            sum.tokens += tokens;
            sum.cost += cost;
          }
        }
      },

      reached(watched: readonly Watched[], nowMs: number): Reached {
        let ids: string[] | null = null;
        let hasDue = false;
        for (const each of watched) {
          if (each.next === null || each.sum[each.threshold.metric] < each.next) continue;
          ids ??= [];
          if (emitReached(each, nowMs, ids)) hasDue = true;
        }
        return ids === null ? nothingReached : { ids, hasDue };
      },
    };
  };
}

function nameOf(account: string, scope: UsageScope["kind"], id: string, period: PeriodKind, startMs: number): string {
  return `${account}\n${scope}\n${id}\n${period}\n${startMs}`;
}
