/** The selection of the usage page. It is in the URL, so that a copied link shows the same data. */
import type { QueryUsageRequestJson, UsageGroupJson } from "../../../../gen/unified/admin/v1/usage_service_pb.js";
import type { Measure } from "./sums.js";

export type Grouping = "model" | "key" | "model-key" | "operation" | "all";

export const groupingTitles: Readonly<Record<Grouping, string>> = {
  model: "Model",
  key: "API key",
  "model-key": "Model and API key",
  operation: "Operation",
  all: "None",
};

export const groups: Readonly<Record<Grouping, UsageGroupJson[]>> = {
  model: ["USAGE_GROUP_MODEL"],
  key: ["USAGE_GROUP_KEY"],
  "model-key": ["USAGE_GROUP_MODEL", "USAGE_GROUP_KEY"],
  operation: ["USAGE_GROUP_OPERATION"],
  all: [],
};

export const measureTitles: Readonly<Record<Measure, string>> = {
  tokens: "Tokens",
  requests: "Requests",
  cost: "Cost",
};

export type RangeName = "24h" | "7d" | "31d" | "90d" | "days";

export const rangeTitles: Readonly<Record<RangeName, string>> = {
  "24h": "Last 24 hours",
  "7d": "Last 7 days",
  "31d": "Last 31 days",
  "90d": "Last 90 days",
  days: "Custom range",
};

export interface Choice {
  /** Empty for the account `default`. */
  readonly account: string;
  readonly range: RangeName;
  /** First and last day in UTC, in the form `2026-11-30`; used by the range `days`. */
  readonly from: string;
  readonly to: string;
  readonly by: Grouping;
  readonly of: Measure;
}

export function choiceOf(query: URLSearchParams, nowMs: number): Choice {
  return {
    account: query.get("account") ?? "",
    range: oneOf(rangeTitles, query.get("range"), "7d"),
    from: dayIn(query.get("from")) ?? dayOf(nowMs - 6 * dayMs),
    to: dayIn(query.get("to")) ?? dayOf(nowMs),
    by: oneOf(groupingTitles, query.get("by"), "model"),
    of: oneOf(measureTitles, query.get("of"), "tokens"),
  };
}

/** The URL parameters; days only for a custom range. */
export function queryOf({ from, to, ...rest }: Choice): Readonly<Record<string, string>> {
  return rest.range === "days" ? { ...rest, from, to } : rest;
}

/** The part of a usage query that selects the time. */
export type When = Pick<QueryUsageRequestJson, "startTime" | "endTime" | "bucketWidth" | "pageSize">;

const dayMs = 86_400_000;

/** The time range of the query, in UTC days or the last hours. Uses the largest page size. */
export function whenOf({ range, from, to }: Pick<Choice, "range" | "from" | "to">, nowMs: number): When {
  if (range === "24h") return { bucketWidth: "BUCKET_WIDTH_HOUR", pageSize: 24 };
  const days = { bucketWidth: "BUCKET_WIDTH_DAY", pageSize: 31 } as const;
  if (range === "7d") return { ...days, pageSize: 7 };
  if (range === "31d") return days;
  if (range === "90d") return { ...days, startTime: new Date(nowMs - 89 * dayMs).toISOString() };
  return { ...days, startTime: startOf(from), endTime: startOf(to, 1) };
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function startOf(day: string, daysLater = 0): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + daysLater * dayMs).toISOString();
}

function oneOf<T extends string>(titles: Readonly<Record<T, string>>, text: string | null, otherwise: T): T {
  return (Object.keys(titles) as T[]).find((name) => name === text) ?? otherwise;
}

function dayIn(text: string | null): string | null {
  return text !== null && /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) ? text : null;
}
