/** Which time the page shows. All days are days of UTC, as the service adds them up. */
import type { QueryUsageRequestJson } from "../../../../gen/unified/admin/v1/usage_service_pb.js";

export type RangeName = "24h" | "7d" | "31d" | "90d" | "days";

export const rangeTitles: Readonly<Record<RangeName, string>> = {
  "24h": "Last 24 hours",
  "7d": "Last 7 days",
  "31d": "Last 31 days",
  "90d": "Last 90 days",
  days: "From … to …",
};

export interface Range {
  readonly name: RangeName;
  /** First and last day, as `2026-11-30`; only of `days`. */
  readonly from: string;
  readonly to: string;
}

/** The part of a query that says when. */
export type When = Pick<QueryUsageRequestJson, "startTime" | "endTime" | "bucketWidth" | "pageSize">;

const dayMs = 86_400_000;

/** What is asked of the service. The longest pages, so that few are needed. */
export function whenOf({ name, from, to }: Range, nowMs: number): When {
  if (name === "24h") return { bucketWidth: "BUCKET_WIDTH_HOUR", pageSize: 24 };
  const days = { bucketWidth: "BUCKET_WIDTH_DAY", pageSize: 31 } as const;
  if (name === "7d") return { ...days, pageSize: 7 };
  if (name === "31d") return days;
  if (name === "90d") return { ...days, startTime: new Date(nowMs - 89 * dayMs).toISOString() };
  return { ...days, startTime: startOf(from), endTime: startOf(to, 1) };
}

/** Today, as `2026-11-30`. */
export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function startOf(day: string, daysLater = 0): string {
  return new Date(Date.parse(`${day}T00:00:00Z`) + daysLater * dayMs).toISOString();
}
