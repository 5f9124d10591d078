/** Rates and history, computed from consecutive readings of the service's counters. */
import type { SystemJson } from "../../../../gen/unified/admin/v1/system_pb.js";
import { grouped } from "../../lib/grouped.js";

/** The interval between two readings. */
export interface Point {
  /** The service's wall clock at the second reading. */
  readonly atMs: number;
  readonly requestsPerSecond: number;
  /** Output tokens, as the engines produce them. */
  readonly tokensPerSecond: number;
  /** Finished requests. */
  readonly ended: number;
  /** Finished requests that failed with a server error. */
  readonly failed: number;
  /** Finished requests that were rejected. */
  readonly rejected: number;
  readonly running: number;
  readonly waiting: number;
}

/** The last minutes, oldest first. */
export interface History {
  readonly last: SystemJson | null;
  readonly points: readonly Point[];
}

export const noHistory: History = { last: null, points: [] };

export const historyMs = 300_000;

/** Adds a reading. Adds no point across a restart, when the counters begin again. */
export function afterReading(history: History, system: SystemJson): History {
  const point = history.last === null ? null : pointBetween(history.last, system);
  if (point === null) return { last: system, points: history.points };
  const since = point.atMs - historyMs;
  return { last: system, points: [...history.points.filter(({ atMs }) => atMs > since && atMs < point.atMs), point] };
}

function pointBetween(before: SystemJson, now: SystemJson): Point | null {
  const atMs = timeOf(now.now);
  const seconds = (atMs - timeOf(before.now)) / 1_000;
  if (before.startedAt !== now.startedAt || !(seconds > 0)) return null;
  const more = (name: "requests" | "failed" | "rejected"): number =>
    Math.max(0, Number(now.counters?.[name] ?? 0) - Number(before.counters?.[name] ?? 0));
  return {
    atMs,
    requestsPerSecond: more("requests") / seconds,
    tokensPerSecond: producedBetween(before, now) / seconds,
    ended: more("requests"),
    failed: more("failed"),
    rejected: more("rejected"),
    ...requestsNow(now),
  };
}

/** Sums by model: each model's counter restarts when the model is loaded. */
function producedBetween(before: SystemJson, now: SystemJson): number {
  const produced = new Map(before.models?.map(({ id, producedTokens }) => [id, Number(producedTokens ?? 0)]));
  let sum = 0;
  for (const { id, producedTokens } of now.models ?? []) {
    const total = Number(producedTokens ?? 0);
    const earlier = produced.get(id) ?? 0;
    sum += total < earlier ? total : total - earlier;
  }
  return sum;
}

/** Active and queued requests of all models. */
export function requestsNow({ models = [] }: SystemJson): { readonly running: number; readonly waiting: number } {
  return {
    running: models.reduce((sum, { running = 0 }) => sum + running, 0),
    waiting: models.reduce((sum, { waiting = 0 }) => sum + waiting, 0),
  };
}

/** Averages and maxima of one minute. */
export interface Minute {
  readonly startMs: number;
  readonly requestsPerSecond: number;
  readonly tokensPerSecond: number;
  readonly failed: number;
  readonly mostRunning: number;
  readonly mostWaiting: number;
}

/** Aggregates by minute, newest first. */
export function byMinute(points: readonly Point[]): readonly Minute[] {
  const minutes = grouped(points, ({ atMs }) => Math.floor(atMs / 60_000) * 60_000);
  return [...minutes]
    .map(([startMs, members]) => ({
      startMs,
      requestsPerSecond: mean(members.map((point) => point.requestsPerSecond)),
      tokensPerSecond: mean(members.map((point) => point.tokensPerSecond)),
      failed: members.reduce((sum, { failed }) => sum + failed, 0),
      mostRunning: Math.max(...members.map(({ running }) => running)),
      mostWaiting: Math.max(...members.map(({ waiting }) => waiting)),
    }))
    .reverse();
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function timeOf(instant: string | undefined): number {
  return new Date(instant ?? Number.NaN).getTime();
}
