/** What the page shows, as its address says: a copied address shows the same. */
import type { UsageGroupJson } from "../../../../gen/unified/admin/v1/usage_service_pb.js";
import { dayOf, type RangeName, rangeTitles } from "./range.js";
import type { Measure } from "./sums.js";

export type Grouping = "model" | "key" | "model-key" | "all";

export const groupingTitles: Readonly<Record<Grouping, string>> = {
  model: "Model",
  key: "API key",
  "model-key": "Model and API key",
  all: "All together",
};

/** What the service is asked to keep apart. */
export const groups: Readonly<Record<Grouping, UsageGroupJson[]>> = {
  model: ["USAGE_GROUP_MODEL"],
  key: ["USAGE_GROUP_KEY"],
  "model-key": ["USAGE_GROUP_MODEL", "USAGE_GROUP_KEY"],
  all: [],
};

export const measureTitles: Readonly<Record<Measure, string>> = {
  tokens: "Tokens",
  requests: "Requests",
  cost: "Cost",
};

export interface Choice {
  /** Empty: the account `default`. */
  readonly account: string;
  readonly range: RangeName;
  readonly from: string;
  readonly to: string;
  readonly by: Grouping;
  readonly of: Measure;
}

export function choiceOf(query: URLSearchParams, nowMs: number): Choice {
  return {
    account: query.get("account") ?? "",
    range: oneOf(rangeTitles, query.get("range"), "7d"),
    from: dayIn(query.get("from")) ?? dayOf(nowMs - 6 * 86_400_000),
    to: dayIn(query.get("to")) ?? dayOf(nowMs),
    by: oneOf(groupingTitles, query.get("by"), "model"),
    of: oneOf(measureTitles, query.get("of"), "tokens"),
  };
}

/** The form in which it stands in the address. Days only where they count. */
export function queryOf({ from, to, ...rest }: Choice): Readonly<Record<string, string>> {
  return rest.range === "days" ? { ...rest, from, to } : rest;
}

function oneOf<T extends string>(titles: Readonly<Record<T, string>>, text: string | null, otherwise: T): T {
  return (Object.keys(titles) as T[]).find((name) => name === text) ?? otherwise;
}

function dayIn(text: string | null): string | null {
  return text !== null && /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) ? text : null;
}
