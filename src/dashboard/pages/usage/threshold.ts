/** Thresholds as text, and the draft of their form. */
import type {
  ActionJson,
  MetricJson,
  PeriodJson,
  ThresholdJson,
} from "../../../../gen/unified/admin/v1/threshold_pb.js";
import { count, dollars, wholeNumber } from "../../lib/format.js";

export const metricTitles: Readonly<Partial<Record<MetricJson, string>>> = {
  METRIC_TOKENS: "Tokens",
  METRIC_REQUESTS: "Requests",
  METRIC_COST: "Cost (USD)",
};

export const periodTitles: Readonly<Partial<Record<PeriodJson, string>>> = {
  PERIOD_DAY: "Day (UTC)",
  PERIOD_MONTH: "Month (UTC)",
};

export const actionTitles: Readonly<Partial<Record<ActionJson, string>>> = {
  ACTION_NOTIFY: "Notify only",
  ACTION_REFUSE: "Notify, and reject requests over the limit",
};

/** `1,000 tokens per day (UTC)`. */
export function titleOf({ metric, limit, period }: ThresholdJson): string {
  const title = period === undefined ? undefined : periodTitles[period];
  return `${amount(metric, limit)}${title === undefined ? "" : ` per ${title.charAt(0).toLowerCase()}${title.slice(1)}`}`;
}

/** An amount with its unit. */
export function amount(metric: MetricJson | undefined, value: string | undefined): string {
  if (metric === "METRIC_COST") return dollars(value);
  const unit = metric === "METRIC_REQUESTS" ? "request" : "token";
  return `${wholeNumber(value)} ${unit}${count(value) === 1 ? "" : "s"}`;
}

export interface ThresholdProgress {
  readonly tone: "good" | "busy" | "bad";
  readonly text: string;
}

/** Whether the limit is reached or, if not, the highest percentage that is. */
export function progressOf({ used, limit, percents = [], action }: ThresholdJson): ThresholdProgress {
  const share = shareOf({ used, limit });
  if (share >= 1) {
    return { tone: "bad", text: action === "ACTION_REFUSE" ? "Limit reached: rejecting requests" : "Limit reached" };
  }
  const reached = percents.findLast((percent) => share * 100 >= percent);
  if (reached !== undefined) return { tone: "busy", text: `${reached} % reached` };
  return { tone: "good", text: `Below ${percents[0] ?? 100} %` };
}

/** The used part of the limit, from 0; above 1 if it was exceeded. */
export function shareOf({
  used,
  limit,
}: {
  readonly used: string | undefined;
  readonly limit: string | undefined;
}): number {
  return Number(used ?? 0) / Math.max(1, Number(limit ?? 1));
}

/** A threshold as typed into the form. */
export interface ThresholdDraft {
  readonly apiKeyId: string;
  readonly metric: MetricJson;
  readonly period: PeriodJson;
  /** Tokens, requests or dollars. */
  readonly limit: string;
  /** `50, 80, 100`. */
  readonly percents: string;
  readonly action: ActionJson;
}

export const newDraft: ThresholdDraft = {
  apiKeyId: "",
  metric: "METRIC_TOKENS",
  period: "PERIOD_MONTH",
  limit: "",
  percents: "50, 80, 100",
  action: "ACTION_NOTIFY",
};

const nanoPerDollar = 1e9;

export function draftOf(threshold: ThresholdJson): ThresholdDraft {
  const { apiKeyId, metric, period, limit, percents, action } = { ...newDraft, ...threshold };
  return {
    apiKeyId,
    metric,
    period,
    limit: metric === "METRIC_COST" ? String(Number(limit) / nanoPerDollar) : limit,
    percents: typeof percents === "string" ? percents : percents.join(", "),
    action,
  };
}

/** The limit in the contract's unit. Throws if it is invalid. */
export function limitOf({ metric, limit }: ThresholdDraft): string {
  const value = metric === "METRIC_COST" ? Math.round(Number(limit) * nanoPerDollar) : Number(limit);
  if (Number.isSafeInteger(value) && value >= 1) return String(value);
  throw new Error(
    metric === "METRIC_COST"
      ? "The limit must be a dollar amount greater than 0."
      : "The limit must be a whole number greater than 0.",
  );
}

/** The percentages in ascending order. Throws if one is invalid. */
export function percentsOf({ percents }: ThresholdDraft): number[] {
  const values = percents
    .split(/[\s,;%]+/)
    .filter((text) => text !== "")
    .map(Number);
  if (values.length > 0 && values.every((value) => Number.isInteger(value) && value >= 1 && value <= 100)) {
    return [...new Set(values)].sort((a, b) => a - b);
  }
  throw new Error("Percentages must be whole numbers from 1 to 100, separated by commas.");
}
