import { UsageError } from "../cli-io.js";

/** A day, or a day and a time with its zone. A time without zone would mean another instant on another machine. */
const dateForm = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** `2027-01-31` (the start of that day in UTC) or `2027-01-31T12:00:00Z`; null when the text is none of these. */
export function parseDate(text: string): Date | null {
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
