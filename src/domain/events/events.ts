import { type ErrorCode, errorRow } from "../../contract/errors.js";
import { sha256Hex } from "../../lib/crypto.js";

/** An event before it is stored. Its bytes are created once and sent unchanged on every attempt (WH-12). */
export interface EventDraft {
  /** `evt_` and 32 hex digits, derived from the event, so that a repeated draft has the same id. */
  readonly id: string;
  readonly type: EventType;
  /** JSON. */
  readonly body: string;
}

export const eventTypes = ["request.completed", "request.failed", "usage.threshold_reached"] as const;

export type EventType = (typeof eventTypes)[number];

/** An event with a sum that the store computes: its body is `prefix`, the number and `suffix`. */
interface EventAroundNumber {
  readonly id: string;
  readonly type: EventType;
  readonly prefix: string;
  readonly suffix: string;
}

export interface RequestFacts {
  readonly requestId: string;
  readonly model: string;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly latencyMs: number;
}

/** The event of an answered request. Its data are exactly seven fields (WH-8). */
export function requestCompleted(facts: RequestFacts, atMs: number): EventDraft {
  return draft("request.completed", facts.requestId, atMs, {
    ...counts(facts),
    status: "completed",
  });
}

/** The error as the caller got it: no cause, no address, no content (WH-9, WH-13). */
interface FailureFacts {
  /** An error's code, or `replica_lost` for a request whose process died. */
  readonly code: ErrorCode | "replica_lost";
  readonly message: string;
}

/** The event of a request that failed after all retries. */
export function requestFailed(facts: RequestFacts, failure: FailureFacts, atMs: number): EventDraft {
  const type = failure.code === "replica_lost" ? "server_error" : errorRow(failure.code).type;
  return draft("request.failed", facts.requestId, atMs, {
    ...counts(facts),
    status: "failed",
    error: { type, code: failure.code, message: failure.message },
  });
}

function counts({ requestId, model, promptTokens, completionTokens, latencyMs }: RequestFacts) {
  return {
    request_id: requestId,
    model,
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    latency_ms: Math.max(0, Math.round(latencyMs)),
  };
}

/**
 * The id is a digest of request and type (WH-11). Id and body are computed lazily: most events have no receiver, and
 * then the store reads only the type.
 */
function draft(type: EventType, requestId: string, atMs: number, data: object): EventDraft {
  let id: string | undefined;
  return {
    type,
    get id() {
      id ??= `evt_${sha256Hex(`${requestId}/${type}`).slice(0, 32)}`;
      return id;
    },
    get body() {
      return JSON.stringify({ id: this.id, type, created_at: new Date(atMs).toISOString(), data });
    },
  };
}

/** The metric that is summed. */
export type Metric = "tokens" | "requests" | "cost";

/** Period of the sum, starting at 00:00 UTC of store time (USE-6). */
export type PeriodKind = "day" | "month";

/** Owner of the usage: a whole account or one key. */
export interface UsageScope {
  readonly kind: "account" | "key";
  readonly id: string;
}

/**
 * Notifies when the usage of a period reaches shares of a limit; with `refuse` it is a budget that rejects requests
 * (USE-4, USE-7).
 */
export interface Threshold {
  /** `thr_` and 24 characters. */
  readonly id: string;
  readonly account: string;
  /** Null: the whole account. */
  readonly apiKeyId: string | null;
  readonly metric: Metric;
  readonly period: PeriodKind;
  /** Tokens, requests or nano-dollars; 1 or more. */
  readonly limit: bigint;
  /** Shares of the limit to notify at, in percent: 1 to 10 whole numbers from 1 to 100, in ascending order. */
  readonly percents: readonly number[];
  readonly action: "notify" | "refuse";
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

/** Port of the threshold store. Changes are published on the change feed. Rejects with `storage_unavailable`. */
export interface ThresholdStore {
  /** At most 10,000, oldest first. */
  list(): Promise<readonly Threshold[]>;
  /** Rejects with ServiceError `conflict` when the id is taken. */
  insert(threshold: Threshold): Promise<void>;
  /** Replaces the threshold with the same id; false if there is none. */
  replace(threshold: Threshold): Promise<boolean>;
  remove(id: string): Promise<boolean>;
}

export function usageScopeOf({ account, apiKeyId }: Pick<Threshold, "account" | "apiKeyId">): UsageScope {
  return apiKeyId === null ? { kind: "account", id: account } : { kind: "key", id: apiKeyId };
}

/** Sums of settled requests. int64 in every driver; never a float (USE-9). */
export interface UsageSums {
  readonly requests: bigint;
  readonly promptTokens: bigint;
  readonly completionTokens: bigint;
  readonly cachedTokens: bigint;
  readonly costNano: bigint;
}

export function addUsageSums(a: UsageSums, b: UsageSums): UsageSums {
  return {
    requests: a.requests + b.requests,
    promptTokens: a.promptTokens + b.promptTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    cachedTokens: a.cachedTokens + b.cachedTokens,
    costNano: a.costNano + b.costNano,
  };
}

/** One day or month of UTC. */
export interface Period {
  readonly kind: PeriodKind;
  readonly startMs: number;
  /** Start of the next period. */
  readonly endMs: number;
}

/** The period that contains an instant. */
export function periodAt(kind: PeriodKind, atMs: number): Period {
  const at = new Date(atMs);
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
  return kind === "day"
    ? { kind, startMs: Date.UTC(year, month, day), endMs: Date.UTC(year, month, day + 1) }
    : { kind, startMs: Date.UTC(year, month, 1), endMs: Date.UTC(year, month + 1, 1) };
}

/** `2026-11-21` or `2026-11`, used in stored ids and keys. */
export function periodName({ kind, startMs }: Period): string {
  return new Date(startMs).toISOString().slice(0, kind === "day" ? 10 : 7);
}

/** One value of a threshold: a share of its limit. */
interface ThresholdValue {
  readonly percent: number;
  /** In the metric's unit, rounded up: reached when the sum is this or more. */
  readonly value: bigint;
}

/** The values in ascending order. Of percents that round up to the same value, only the highest is included. */
export function valuesOf({ limit, percents }: Pick<Threshold, "limit" | "percents">): readonly ThresholdValue[] {
  const values = percents.map((percent) => ({ percent, value: (limit * BigInt(percent) + 99n) / 100n }));
  return values.filter(({ value }, position) => value !== values[position + 1]?.value);
}

/**
 * Id of the crossing of one value in one period. The store keeps it to notify once (USE-3). It contains the value: an
 * edited threshold can fire again (USE-5).
 */
export function crossingMark({ id }: Pick<Threshold, "id">, { value }: ThresholdValue, period: Period): string {
  return `${id}:${value}:${periodName(period)}`;
}

/** The sum of a threshold's metric. */
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

/** The event of a crossing, without the sum, which the store computes (WH-8, WH-10). Its id is derived from the crossing. */
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
