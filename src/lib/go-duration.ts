/**
 * Whole milliseconds as Go writes a duration: `12ms`, `7.66s`, `6m0s`, `1h0m0s`. Below a second in milliseconds; from a
 * second on a unit is there whenever a higher one is, and fractions of a second lose their trailing zeros.
 */
export function goDuration(ms: number): string {
  if (ms < 1_000) return ms === 0 ? "0s" : `${ms}ms`;
  const minutes = Math.floor(ms / 60_000);
  const seconds = `${(ms % 60_000) / 1_000}s`;
  if (minutes === 0) return seconds;
  return minutes < 60 ? `${minutes}m${seconds}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${seconds}`;
}
