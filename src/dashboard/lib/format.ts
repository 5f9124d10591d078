/** Numbers, times and names as the dashboard shows them, in the browser's language. */
const whole = new Intl.NumberFormat();
const short = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const instant = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** Reads an int64, which protobuf JSON writes as a string. */
export function count(value: string | number | undefined): number {
  return Number(value ?? 0);
}

export function wholeNumber(value: string | number | undefined): string {
  return whole.format(count(value));
}

export function shortNumber(value: string | number | undefined): string {
  return short.format(count(value));
}

export function perSecond(value: number): string {
  return value < 10 ? value.toFixed(1) : whole.format(Math.round(value));
}

export function bytes(value: string | number | undefined): string {
  const size = count(value);
  const power = Math.min(4, Math.floor(Math.log(Math.max(1, size)) / Math.log(1_024)));
  return power === 0 ? `${size} B` : `${(size / 1_024 ** power).toFixed(1)} ${["KiB", "MiB", "GiB", "TiB"][power - 1]}`;
}

/** Formats nano-dollars. */
export function dollars(value: string | number | undefined): string {
  return `$${(count(value) / 1e9).toFixed(count(value) > 0 && count(value) < 1e7 ? 6 : 2)}`;
}

/** Formats a protobuf timestamp; empty if there is none. */
export function time(value: string | undefined): string {
  return value === undefined ? "" : instant.format(new Date(value));
}

export function milliseconds(value: string | number | undefined): string {
  const ms = count(value);
  if (ms >= 10_000) return `${(ms / 1_000).toFixed(1)} s`;
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}

/** Relative time: `in 4 min`, `2 h ago`. */
export function distance(value: string | undefined, nowMs: number): string {
  if (value === undefined) return "";
  const seconds = Math.round((new Date(value).getTime() - nowMs) / 1_000);
  const size = Math.abs(seconds);
  const text = size < 90 ? `${size} s` : size < 5_400 ? `${Math.round(size / 60)} min` : hoursOrDays(size);
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

function hoursOrDays(seconds: number): string {
  return seconds < 129_600 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`;
}

/** The timestamp of a `datetime-local` input in the browser's time zone; null if it is empty or invalid. */
export function toInstant(local: string): string | null {
  const ms = new Date(local).getTime();
  return local === "" || Number.isNaN(ms) ? null : new Date(ms).toISOString();
}

/** The value of a `datetime-local` input, to the minute; empty if there is no timestamp. */
export function toLocal(instant: string | null | undefined): string {
  if (instant === null || instant === undefined) return "";
  const at = new Date(instant);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Browsers by their user agent tokens. Most user agents contain several: the first match counts. */
const browsers: readonly (readonly [token: RegExp, name: string])[] = [
  [/\bEdg(?:e|A|iOS)?\//, "Edge"],
  [/\bOPR\//, "Opera"],
  [/\b(?:Firefox|FxiOS)\//, "Firefox"],
  [/\b(?:Headless)?Chrome\/|\bCriOS\//, "Chrome"],
  [/\bSafari\//, "Safari"],
];

const systems: readonly (readonly [token: RegExp, name: string])[] = [
  [/\biPhone\b/, "iPhone"],
  [/\biPad\b/, "iPad"],
  [/\bAndroid\b/, "Android"],
  [/\bWindows\b/, "Windows"],
  [/\bMac OS X\b/, "macOS"],
  [/\bCrOS\b/, "ChromeOS"],
  [/\bLinux\b/, "Linux"],
];

/** `Firefox on Linux`; other programs by their whole user agent, `unknown` if it is empty. */
export function browserName(userAgent: string): string {
  const [browser, system] = [browsers, systems].map((known) => known.find(([token]) => token.test(userAgent))?.[1]);
  if (browser === undefined) return userAgent || "unknown";
  return system === undefined ? browser : `${browser} on ${system}`;
}
