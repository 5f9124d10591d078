import { sha256Hex } from "../../lib/digest.js";
import type { EventAroundNumber } from "./event-draft.js";
import { type Period, periodName } from "./period.js";
import { type Threshold, type UsageSums, usageScopeOf } from "./threshold.js";

/** One value of a threshold: a share of its limit. */
export interface ThresholdValue {
  readonly percent: number;
  /** In the metric's unit, rounded up: reached when the sum is this or more. */
  readonly value: bigint;
}

/** The lowest first. */
export function valuesOf({ limit, percents }: Pick<Threshold, "limit" | "percents">): readonly ThresholdValue[] {
  return percents.map((percent) => ({ percent, value: (limit * BigInt(percent) + 99n) / 100n }));
}

/**
 * Names the crossing of one value in one period. A store keeps it to tell the crossing once (USE-3). The value is part
 * of it: an edited threshold is armed again (USE-5).
 */
export function crossingMark({ id }: Pick<Threshold, "id">, { value }: ThresholdValue, period: Period): string {
  return `${id}:${value}:${periodName(period)}`;
}

/** Of sums, the one that a threshold looks at. */
export function sumOf(metric: Threshold["metric"], sums: UsageSums): bigint {
  switch (metric) {
    case "requests":
      return sums.requests;
    case "tokens":
      return sums.promptTokens + sums.completionTokens;
    case "cost":
      return sums.costNano;
  }
}

/** The event of a crossing, around the sum that only the store knows (WH-8, WH-10). Its id follows from the crossing. */
export function thresholdEvent(
  threshold: Threshold,
  value: ThresholdValue,
  period: Period,
  atMs: number,
): EventAroundNumber {
  const id = `evt_${sha256Hex(crossingMark(threshold, value, period)).slice(0, 32)}`;
  const type = "usage.threshold_reached";
  const before = JSON.stringify({ id, type, created_at: new Date(atMs).toISOString() }).slice(0, -1);
  const facts = JSON.stringify({
    threshold_id: threshold.id,
    metric: threshold.metric,
    percent: value.percent,
    threshold: Number(value.value),
    scope: usageScopeOf(threshold),
    period_start: new Date(period.startMs).toISOString(),
    period_end: new Date(period.endMs).toISOString(),
  }).slice(0, -1);
  return { id, type, prefix: `${before},"data":${facts},"used":`, suffix: "}}" };
}
