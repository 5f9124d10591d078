import { type Duration, durationFromMs, type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { parseDuration } from "../config/setting-types.js";
import { UsageError } from "./cli-io.js";

/** ISO 8601 in UTC, as every JSON answer has times; null for none. */
export function isoTime(time: Timestamp | undefined): string | null {
  return time === undefined ? null : timestampDate(time).toISOString();
}

/** An integer for `--json`: text where a JSON number would round. */
export function jsonInteger(value: bigint): number | string {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : String(value);
}

/** The instant that `30d`, `12h`, `90s`, `2027-01-31` or `2027-01-31T12:00:00Z` means. Throws UsageError. */
export function parseExpiry(text: string, now: Date): Date {
  const lengthMs = parseDuration(text);
  const expiry = lengthMs === null ? parseDate(text) : new Date(now.getTime() + lengthMs);
  if (expiry === null || Number.isNaN(expiry.getTime())) {
    throw new UsageError(
      `--expires: "${text}" is neither a time such as 30d, 12h or 90s nor a date such as 2027-01-31`,
    );
  }
  if (expiry <= now) throw new UsageError(`--expires: ${text} is not in the future`);
  return expiry;
}

/** A day, or a day and a time with its zone. A time without zone would mean another instant on another machine. */
const dateForm = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** `2027-01-31` (the start of that day in UTC) or `2027-01-31T12:00:00Z`; null when the text is none of these. */
function parseDate(text: string): Date | null {
  if (!dateForm.test(text)) return null;
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? null : date;
}

/** The instant that a date means. Throws UsageError naming the option. */
export function parseInstant(option: string, text: string): Date {
  const instant = parseDate(text);
  if (instant !== null) return instant;
  throw new UsageError(`${option}: "${text}" is no date such as 2026-01-31 or 2026-01-31T12:00:00Z`);
}

/** `--overlap` as a field of a request; none when it was not given. Throws UsageError. */
export function overlapOf({ overlap }: { readonly overlap?: string }): { overlap?: Duration } {
  if (overlap === undefined) return {};
  const overlapMs = parseDuration(overlap);
  if (overlapMs !== null) return { overlap: durationFromMs(overlapMs) };
  throw new UsageError(`--overlap: "${overlap}" is no length of time such as 24h, 30m or 0s`);
}
