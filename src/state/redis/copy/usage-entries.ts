import { addUsageSums, type UsageSums, usageScopeOf } from "../../../domain/events/events.js";
import type { UsageRange, UsageRow } from "../../../domain/metering/usage-store.js";
import type { CopiedPeriodSum, FiredThreshold } from "../../../domain/service/state-copy.js";
import { keySpace } from "../connection/key-space.js";
import { daysKeptMs, hoursKeptMs, sumsKeptMs } from "../ledger/settlements.js";
import { type Entry, hashEntry, zsetEntry } from "./entry.js";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Rows of one hour or day, each by operation and summed over operations, as `settle.lua` writes them. */
export function* usageEntries(width: UsageRange["width"], rows: Iterable<UsageRow>, nowMs: number): Iterable<Entry> {
  const [stepMs, keptMs] = width === "hour" ? [hourMs, hoursKeptMs] : [dayMs, daysKeptMs];
  const newestDays = new Map<string, number>();
  let total: UsageRow | null = null;
  for (const row of rows) {
    const expiresAtMs = row.startMs + stepMs + keptMs;
    if (expiresAtMs <= nowMs) continue;
    const isSame: boolean = total !== null && nameOf(total) === nameOf(row);
    if (total !== null && !isSame) yield* totalEntries(total, width, total.startMs + stepMs + keptMs);
    total = total !== null && isSame ? { ...row, ...addUsageSums(total, row) } : row;
    if (row.operation !== null)
      yield* sumEntries(keyOf(row, width), `${fieldOf(row)}${row.operation}.`, row, expiresAtMs);
    if (width === "day") newestDays.set(row.account, Math.max(newestDays.get(row.account) ?? 0, row.startMs));
  }
  if (total !== null) yield* totalEntries(total, width, total.startMs + stepMs + keptMs);
  for (const [account, startMs] of newestDays) yield zsetEntry(keySpace.shardOf(account).accounts, account, startMs);
}

function totalEntries(row: UsageRow, width: UsageRange["width"], expiresAtMs: number): Iterable<Entry> {
  return sumEntries(keyOf(row, width), fieldOf(row), row, expiresAtMs);
}

function nameOf({ account, startMs, keyId, model }: UsageRow): string {
  return JSON.stringify([account, startMs, keyId, model]);
}

function keyOf({ account, startMs }: UsageRow, width: UsageRange["width"]): string {
  return keySpace.shardOf(account).usageRows(account, width, startMs);
}

function fieldOf({ keyId, model }: UsageRow): string {
  return `${keyId ?? ""}|${model}|`;
}

/** Sums of periods. */
export function* periodEntries(all: Iterable<CopiedPeriodSum>, nowMs: number): Iterable<Entry> {
  for (const { account, scope, period, sums } of all) {
    const expiresAtMs = period.endMs + sumsKeptMs;
    if (expiresAtMs <= nowMs) continue;
    yield* sumEntries(keySpace.shardOf(account).sums(account, scope, period), "", sums, expiresAtMs);
  }
}

/** Reported values of thresholds, in the sums of their periods. */
export function* firedEntries(all: Iterable<FiredThreshold>, nowMs: number): Iterable<Entry> {
  for (const { threshold, value, period } of all) {
    const expiresAtMs = period.endMs + sumsKeptMs;
    if (expiresAtMs <= nowMs) continue;
    const { account, id } = threshold;
    const key = keySpace.shardOf(account).sums(account, usageScopeOf(threshold), period);
    yield hashEntry(key, `m${id}:${value}`, "1", expiresAtMs);
  }
}

/** A sum of 0 has no field. */
function* sumEntries(key: string, before: string, sums: UsageSums, expiresAtMs: number): Iterable<Entry> {
  const { requests, promptTokens, completionTokens, cachedTokens, costNano } = sums;
  const byLetter = { r: requests, p: promptTokens, c: completionTokens, h: cachedTokens, n: costNano };
  for (const [letter, sum] of Object.entries(byLetter)) {
    if (sum > 0n) yield hashEntry(key, before + letter, String(sum), expiresAtMs);
  }
}
