/** The history of the service as the overview shows it: one row per interval of the time range. */
import type { LatencyJson, SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import type { GetHistoryResponseJson, HistoryPointJson } from "../../../../gen/unified/admin/v1/system_service_pb.js";

export type RangeName = "1h" | "24h" | "7d";

export interface Range {
  readonly title: string;
  readonly request: "HISTORY_RANGE_HOUR" | "HISTORY_RANGE_DAY" | "HISTORY_RANGE_WEEK";
  readonly seconds: number;
  readonly refreshMs: number;
}

export const ranges: Readonly<Record<RangeName, Range>> = {
  "1h": { title: "Last hour", request: "HISTORY_RANGE_HOUR", seconds: 3_600, refreshMs: 10_000 },
  "24h": { title: "Last 24 hours", request: "HISTORY_RANGE_DAY", seconds: 86_400, refreshMs: 60_000 },
  "7d": { title: "Last 7 days", request: "HISTORY_RANGE_WEEK", seconds: 604_800, refreshMs: 60_000 },
};

export function rangeOf(text: string | null): RangeName {
  return text === "24h" || text === "7d" ? text : "1h";
}

/** Quantiles in milliseconds. */
export interface Quantiles {
  readonly p50: number;
  readonly p95: number;
}

/** Requests, tokens, cost and latency of one interval of the time range. */
export interface Row {
  readonly startMs: number;
  readonly endMs: number;
  readonly requests: number;
  readonly failed: number;
  readonly rejected: number;
  readonly cancelled: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly costNano: number;
  /** Null: nothing was measured. */
  readonly duration: Quantiles | null;
  readonly firstToken: Quantiles | null;
}

export interface History {
  /** In ascending order of time; at least one. */
  readonly rows: readonly Row[];
  readonly total: Row;
}

export function historyOf({ points = [], total = {} }: GetHistoryResponseJson): History {
  const whole = rowOf(total);
  return { rows: points.length === 0 ? [whole] : points.map(rowOf), total: whole };
}

function rowOf({ startTime, endTime, counters = {}, latencies = [] }: HistoryPointJson): Row {
  const quantiles = (name: string): Quantiles | null => quantilesOf(latencies.find((latency) => latency.name === name));
  return {
    startMs: timeOf(startTime),
    endMs: timeOf(endTime),
    requests: Number(counters.requests ?? 0),
    failed: Number(counters.failed ?? 0),
    rejected: Number(counters.rejected ?? 0),
    cancelled: Number(counters.clientLeft ?? 0),
    promptTokens: Number(counters.promptTokens ?? 0),
    completionTokens: Number(counters.completionTokens ?? 0),
    costNano: Number(counters.costNanoDollars ?? 0),
    duration: quantiles("request"),
    firstToken: quantiles("time_to_first_token"),
  };
}

function quantilesOf(latency: LatencyJson | undefined): Quantiles | null {
  if (latency === undefined || Number(latency.count ?? 0) === 0) return null;
  return { p50: Number(latency.p50Ms ?? 0), p95: Number(latency.p95Ms ?? 0) };
}

/** Shorter intervals, such as one that has just begun, have no rate. */
const ratedSecondsMin = 5;

/** A number per second of the row; null for a row that has just begun. */
export function rate(row: Row, value: number): number | null {
  const seconds = (row.endMs - row.startMs) / 1_000;
  return seconds < ratedSecondsMin ? null : value / seconds;
}

/** The share of requests that failed because of the service, 0 to 1; null without requests. */
export function errorShare({ requests, failed }: Row): number | null {
  return requests === 0 ? null : failed / requests;
}

/** Output tokens per second between two readings; null if there is only one, or if the service restarted between them. */
export function outputRate(before: SystemJson | null, now: SystemJson): number | null {
  const seconds = (timeOf(now.now) - timeOf(before?.now)) / 1_000;
  if (before === null || before.startedAt !== now.startedAt || !(seconds > 0)) return null;
  const produced = new Map(before.models?.map(({ id, producedTokens }) => [id, Number(producedTokens ?? 0)]));
  let sum = 0;
  for (const { id, producedTokens } of now.models ?? []) {
    // Each model's counter restarts when the model is loaded.
    const total = Number(producedTokens ?? 0);
    const earlier = produced.get(id) ?? 0;
    sum += total < earlier ? total : total - earlier;
  }
  return sum / seconds;
}

/** Active and queued requests of all models, and their slots. */
export function requestsNow({ models = [] }: SystemJson) {
  const sum = (name: "running" | "waiting" | "slots"): number =>
    models.reduce((total, model) => total + (model[name] ?? 0), 0);
  return { running: sum("running"), waiting: sum("waiting"), slots: sum("slots") };
}

function timeOf(instant: string | undefined): number {
  return new Date(instant ?? Number.NaN).getTime();
}
