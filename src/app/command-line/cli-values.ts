import { type DescMessage, isMessage, type MessageShape } from "@bufbuild/protobuf";
import { type Duration, durationFromMs, type Timestamp, TimestampSchema, timestampDate } from "@bufbuild/protobuf/wkt";
import { parseDuration } from "../config/setting-types.js";
import { UsageError } from "./cli-io.js";

/** A time in ISO 8601 and UTC; null if unset. */
export function isoTime(time: Timestamp | undefined): string | null {
  return time === undefined ? null : timestampDate(time).toISOString();
}

/** A time for a column: UTC to the minute, `2026-01-31T12:00Z`; `unset` without one. */
export function minuteText(time: Timestamp | undefined, unset: string): string {
  return isoTime(time)?.replace(/:\d\d\.\d+Z$/, "Z") ?? unset;
}

/** An integer for JSON: a string if a JSON number would round it. */
export function jsonInteger(value: bigint): number | string {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : String(value);
}

/**
 * A message as an object for JSON, with the field names of its schema. Unset fields are null, as are empty fields
 * whose names are in `nullable`.
 */
export function toJsonObject<T extends DescMessage>(
  { fields }: T,
  message: MessageShape<T>,
  nullable: readonly string[] = [],
): Record<string, unknown> {
  const values = new Map(Object.entries(message));
  return Object.fromEntries(
    fields.map(({ name, localName }) => {
      const value: unknown = values.get(localName);
      return [name, nullable.includes(name) ? value || null : toJsonValue(value)];
    }),
  );
}

function toJsonValue(value: unknown): unknown {
  if (typeof value === "bigint") return jsonInteger(value);
  return isMessage(value, TimestampSchema) ? isoTime(value) : (value ?? null);
}

/** The time that is `30d`, `12h` or `90s` from now, or that a date states. Throws UsageError. */
export function parseExpiry(text: string, now: Date): Date {
  const lengthMs = parseDuration(text);
  const expiry = lengthMs === null ? parseDate(text) : new Date(now.getTime() + lengthMs);
  if (expiry === null || Number.isNaN(expiry.getTime())) {
    throw new UsageError(`--expires: invalid time "${text}"; use e.g. 30d, 12h, 90s or a date such as 2027-01-31`);
  }
  if (expiry <= now) throw new UsageError(`--expires: ${text} is not in the future`);
  return expiry;
}

/** A day, or a day and a time with its zone. A time without zone would mean another instant on another machine. */
const dateForm = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** `2027-01-31` (the start of that day in UTC) or `2027-01-31T12:00:00Z`; null for any other text. */
function parseDate(text: string): Date | null {
  if (!dateForm.test(text)) return null;
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? null : date;
}

/** Parses the date of an option. Throws UsageError with the option's name. */
export function parseInstant(option: string, text: string): Date {
  const instant = parseDate(text);
  if (instant !== null) return instant;
  throw new UsageError(`${option}: invalid date "${text}"; use e.g. 2026-01-31 or 2026-01-31T12:00:00Z`);
}

/** `--overlap` as a field of a request; no field if it is absent. Throws UsageError. */
export function overlapOf({ overlap }: { readonly overlap?: string }): { overlap?: Duration } {
  if (overlap === undefined) return {};
  const overlapMs = parseDuration(overlap);
  if (overlapMs !== null) return { overlap: durationFromMs(overlapMs) };
  throw new UsageError(`--overlap: invalid duration "${overlap}"; use e.g. 24h, 30m or 0s`);
}
