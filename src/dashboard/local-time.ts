/**
 * Between instants of the service and what an input of the kind `datetime-local` holds: `2026-11-21T14:30`, in the time
 * zone of whoever looks.
 */

/** Null when the input is empty or holds no time. */
export function toInstant(local: string): string | null {
  const ms = new Date(local).getTime();
  return local === "" || Number.isNaN(ms) ? null : new Date(ms).toISOString();
}

/** To the minute. Empty for none. */
export function toLocal(instant: string | null | undefined): string {
  if (instant === null || instant === undefined) return "";
  const at = new Date(instant);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
