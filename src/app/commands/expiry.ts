import { UsageError } from "../cli-io.js";
import { parseDuration } from "../config/durations.js";
import { parseDate } from "./instant.js";

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
