/** Aggregates usage into table rows and stacked bars. */
import type { ApiKeyJson } from "../../../../gen/unified/admin/v1/api_key_pb.js";
import type { UsageBucketJson, UsageResultJson } from "../../../../gen/unified/admin/v1/usage_service_pb.js";
import { grouped } from "../../lib/grouped.js";

/** A metric of the chart. */
export type Measure = "tokens" | "requests" | "cost";

/** Totals as numbers, which are exact up to 9 million dollars. */
export interface Sums {
  readonly requests: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly costNanoDollars: number;
}

/** Usage of one group in an hour or day. */
export interface UsageRow extends Sums {
  readonly startTime: string;
  readonly endTime: string;
  /** Empty for all models. */
  readonly model: string;
  /** Empty for all keys, or for usage without a key. */
  readonly apiKeyId: string;
  /** Empty for all operations, or for usage that was recorded without an operation. */
  readonly operation: string;
}

export function rowsOf(buckets: readonly UsageBucketJson[]): readonly UsageRow[] {
  return buckets.flatMap(({ startTime = "", endTime = "", results = [] }) =>
    results.map((result) => ({
      startTime,
      endTime,
      model: result.model ?? "",
      apiKeyId: result.apiKeyId ?? "",
      operation: result.operation ?? "",
      ...sumsOf(result),
    })),
  );
}

function sumsOf(result: UsageResultJson): Sums {
  return {
    requests: Number(result.requests ?? 0),
    promptTokens: Number(result.promptTokens ?? 0),
    completionTokens: Number(result.completionTokens ?? 0),
    cachedTokens: Number(result.cachedTokens ?? 0),
    costNanoDollars: Number(result.costNanoDollars ?? 0),
  };
}

export function measured(sums: Sums, measure: Measure): number {
  if (measure === "requests") return sums.requests;
  return measure === "cost" ? sums.costNanoDollars : sums.promptTokens + sums.completionTokens;
}

/** One row per group over the whole time range, largest first. */
export function totalsOf(rows: readonly UsageRow[], measure: Measure): readonly UsageRow[] {
  const groups = grouped(rows, ({ model, apiKeyId, operation }) => JSON.stringify([model, apiKeyId, operation]));
  const totals = [...groups.values()].flatMap((members) => {
    const [first] = members;
    const last = members.at(-1);
    return first === undefined || last === undefined
      ? []
      : [{ ...first, endTime: last.endTime, ...members.reduce(added, nothing) }];
  });
  return totals.sort((a, b) => measured(b, measure) - measured(a, measure));
}

const nothing: Sums = { requests: 0, promptTokens: 0, completionTokens: 0, cachedTokens: 0, costNanoDollars: 0 };

function added(a: Sums, b: Sums): Sums {
  return {
    requests: a.requests + b.requests,
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    costNanoDollars: a.costNanoDollars + b.costNanoDollars,
  };
}

/** One part of the stacked bars, with a value per bucket. */
export interface BarPart {
  readonly label: string;
  readonly values: readonly number[];
}

const partsMax = 7;

/** The parts of the bars: the largest groups, and one part for all others. */
export function barsOf(
  buckets: readonly UsageBucketJson[],
  measure: Measure,
  labelOf: (row: UsageRow) => string,
): readonly BarPart[] {
  const rows = rowsOf(buckets);
  const labels = [...new Set(totalsOf(rows, measure).map(labelOf))];
  const named = new Set(labels.slice(0, labels.length > partsMax ? partsMax - 1 : partsMax));
  const label = (row: UsageRow): string => (named.has(labelOf(row)) ? labelOf(row) : "Other");
  const byLabel = grouped(rows, label);
  return [...named, ...(labels.length > named.size ? ["Other"] : [])].map((name) => {
    const byStart = grouped(byLabel.get(name) ?? [], ({ startTime }) => startTime);
    const valueAt = (start = ""): number =>
      (byStart.get(start) ?? []).reduce((sum, row) => sum + measured(row, measure), 0);
    return { label: name, values: buckets.map(({ startTime }) => valueAt(startTime)) };
  });
}

/** Maps a key id to its name, or to itself if the name is unknown. */
export function keyNames(keys: readonly ApiKeyJson[]): (id: string) => string {
  const names = new Map(keys.map(({ id, name }) => [id, name]));
  return (id) => (id === "" ? "No key" : (names.get(id) ?? id));
}
