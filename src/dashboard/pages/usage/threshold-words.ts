/** Thresholds in words. */
import type {
  ActionJson,
  MetricJson,
  PeriodJson,
  ThresholdJson,
} from "../../../../gen/unified/admin/v1/threshold_pb.js";
import { dollars, wholeNumber } from "../../format.js";

export const metricTitles: Readonly<Partial<Record<MetricJson, string>>> = {
  METRIC_TOKENS: "Tokens",
  METRIC_REQUESTS: "Requests",
  METRIC_COST: "Cost in dollars",
};

export const periodTitles: Readonly<Partial<Record<PeriodJson, string>>> = {
  PERIOD_DAY: "a day (UTC)",
  PERIOD_MONTH: "a month (UTC)",
};

export const actionTitles: Readonly<Partial<Record<ActionJson, string>>> = {
  ACTION_NOTIFY: "Send an event at each share",
  ACTION_REFUSE: "Send events, and refuse requests at the limit",
};

/** A use or a limit with its unit. */
export function amount(metric: MetricJson | undefined, value: string | undefined): string {
  if (metric === "METRIC_COST") return dollars(value);
  return `${wholeNumber(value)} ${metric === "METRIC_REQUESTS" ? "requests" : "tokens"}`;
}

/** `1,000 tokens a day (UTC)`. */
export function titleOf({ metric, limit, period }: ThresholdJson): string {
  return `${amount(metric, limit)} ${period === undefined ? "" : (periodTitles[period] ?? "")}`;
}

/** How far it is, in words. */
export function standingOf({ used, limit, percents = [], action }: ThresholdJson): {
  readonly tone: "good" | "busy" | "bad";
  readonly text: string;
} {
  const share = shareOf({ used, limit });
  if (share >= 1) {
    return { tone: "bad", text: action === "ACTION_REFUSE" ? "Spent: requests are refused" : "Limit reached" };
  }
  const reached = percents.findLast((percent) => share * 100 >= percent);
  if (reached !== undefined) return { tone: "busy", text: `${reached} % reached` };
  return { tone: "good", text: `Below ${percents[0] ?? 100} %` };
}

/** 0 to 1, and more when it was passed. */
export function shareOf({
  used,
  limit,
}: {
  readonly used: string | undefined;
  readonly limit: string | undefined;
}): number {
  return Number(used ?? 0) / Math.max(1, Number(limit ?? 1));
}
