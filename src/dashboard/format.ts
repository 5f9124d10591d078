/** Numbers and times as people read them, in the browser's language. */
const whole = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const instant = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Of an int64, which JSON writes as text. */
export function count(value: string | number | undefined): number {
  return Number(value ?? 0);
}

export function wholeNumber(value: string | number | undefined): string {
  return whole.format(count(value));
}

export function shortNumber(value: string | number | undefined): string {
  return short.format(count(value));
}

/** A timestamp of the contract. Empty text for none. */
export function time(value: string | undefined): string {
  return value === undefined ? "" : instant.format(new Date(value));
}

export function milliseconds(value: string | number | undefined): string {
  const ms = count(value);
  if (ms >= 10_000) return `${(ms / 1_000).toFixed(1)} s`;
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}

/** Nano-dollars. */
export function dollars(value: string | number | undefined): string {
  return `$${(count(value) / 1e9).toFixed(count(value) > 0 && count(value) < 1e7 ? 6 : 2)}`;
}

/** How far away an instant is: `in 4 min`, `2 h ago`. */
export function distance(value: string | undefined, nowMs: number): string {
  if (value === undefined) return "";
  const seconds = Math.round((new Date(value).getTime() - nowMs) / 1_000);
  const size = Math.abs(seconds);
  const text = size < 90 ? `${size} s` : size < 5_400 ? `${Math.round(size / 60)} min` : longText(size);
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

function longText(seconds: number): string {
  return seconds < 129_600 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`;
}

/** Of something per second. */
export function perSecond(value: number): string {
  return value < 10 ? value.toFixed(1) : whole.format(Math.round(value));
}

/** A size in bytes. */
export function bytes(value: string | number | undefined): string {
  const size = count(value);
  const power = Math.min(4, Math.floor(Math.log(Math.max(1, size)) / Math.log(1_024)));
  return power === 0 ? `${size} B` : `${(size / 1_024 ** power).toFixed(1)} ${["KiB", "MiB", "GiB", "TiB"][power - 1]}`;
}
