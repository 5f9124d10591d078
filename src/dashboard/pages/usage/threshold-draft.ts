/** What is typed into the form of a threshold. */
import type {
  ActionJson,
  MetricJson,
  PeriodJson,
  ThresholdJson,
} from "../../../../gen/unified/admin/v1/threshold_pb.js";

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

/** The limit as the contract has it. Throws what is wrong with it. */
export function limitOf({ metric, limit }: ThresholdDraft): string {
  const value = metric === "METRIC_COST" ? Math.round(Number(limit) * nanoPerDollar) : Number(limit);
  if (Number.isSafeInteger(value) && value >= 1) return String(value);
  throw new Error(
    metric === "METRIC_COST" ? "The limit is an amount of dollars above 0." : "The limit is a whole number above 0.",
  );
}

/** The shares in rising order. Throws what is wrong with them. */
export function percentsOf({ percents }: ThresholdDraft): number[] {
  const values = percents
    .split(/[\s,;%]+/)
    .filter((text) => text !== "")
    .map(Number);
  if (values.length > 0 && values.every((value) => Number.isInteger(value) && value >= 1 && value <= 100)) {
    return [...new Set(values)].sort((a, b) => a - b);
  }
  throw new Error("Shares are whole numbers from 1 to 100, with commas between them.");
}
