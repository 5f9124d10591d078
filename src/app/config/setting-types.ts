import * as z from "zod";

/** A duration: text such as `30s` in the file, milliseconds in the program. Bounds are milliseconds. */
export function duration(minMs: number, maxMs: number) {
  const error = "must be a time such as 250ms, 30s, 2m or 5h";
  const written = z.string({ error }).regex(durationPattern, { error });
  return measured(written, parseDuration, formatDuration, minMs, maxMs);
}

/** A duration, or 0 for off. Bounds are milliseconds. */
export function durationOrOff(minMs: number, maxMs: number) {
  const error = "must be 0 or a time such as 2m, 5h or 30d";
  const written = z.union([z.literal(0), z.string().regex(durationPattern, { error })], { error });
  return z.codec(written, z.number(), {
    decode(value, ctx) {
      const ms = value === 0 ? 0 : parseDuration(value);
      if (ms === 0 || (ms !== null && ms >= minMs && ms <= maxMs)) return ms;
      const message = `must be 0 or between ${formatDuration(minMs)} and ${formatDuration(maxMs)}`;
      ctx.issues.push({ code: "custom", input: value, message });
      return z.NEVER;
    },
    encode: (ms) => (ms === 0 ? 0 : formatDuration(ms)),
  });
}

/** A size: a number of bytes or text such as `64KiB` in the file, bytes in the program. Bounds are bytes. */
export function size(minBytes: number, maxBytes: number) {
  const error = "must be a size such as 65536, 64KiB or 20MiB";
  const written = z.union([z.int().min(0), z.string().regex(sizePattern, { error })], { error });
  const parse = (value: string | number) => (typeof value === "number" ? value : parseSize(value));
  return measured(written, parse, formatSize, minBytes, maxBytes);
}

/** A setting that has a unit in the file and is a number in the program. */
function measured<V extends string | number>(
  written: z.ZodType<V>,
  parse: (value: V) => number | null,
  format: (number: number) => V,
  min: number,
  max: number,
) {
  return z.codec(written, z.number(), {
    decode(value, ctx) {
      const number = parse(value);
      if (number !== null && number >= min && number <= max) return number;
      const message = `must be between ${format(min)} and ${format(max)}`;
      ctx.issues.push({ code: "custom", input: value, message });
      return z.NEVER;
    },
    encode: format,
  });
}

/** A whole number in a range that includes both ends. */
export function wholeNumber(min: number, max: number) {
  const error = `must be a whole number between ${min} and ${max}`;
  return z.int({ error }).min(min, { error }).max(max, { error });
}

export const trueOrFalse = z.boolean({ error: "must be true or false" });

export function text(description: string) {
  return z.string({ error: `must be text: ${description}` }).min(1, { error: "must not be empty" });
}

export function oneOf<const T extends readonly [string, ...string[]]>(values: T) {
  return z.enum(values, { error: `must be one of ${values.join(", ")}` });
}

/** Milliseconds per unit, largest first. */
const unitMs: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 };

/** One whole number and one unit. Published in the JSON Schema. */
const durationPattern = /^(0|[1-9][0-9]{0,11})(ms|s|m|h|d)$/;

/** Milliseconds of `250ms`, `30s`, `2m`, `5h` or `30d`; null for any other text. */
export function parseDuration(text: string): number | null {
  const [, number, unit = ""] = durationPattern.exec(text) ?? [];
  return number === undefined ? null : Number(number) * (unitMs[unit] ?? 1);
}

/** A whole number of milliseconds, 0 or more, in the largest unit that keeps it whole. */
export function formatDuration(ms: number): string {
  if (ms === 0) return "0s";
  const [unit, size] = Object.entries(unitMs).find(([, one]) => ms % one === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

const unitBytes: Readonly<Record<string, number>> = { GiB: 1024 ** 3, MiB: 1024 ** 2, KiB: 1024 };

/** One whole number and one unit; a whole number alone is bytes. Published in the JSON Schema. */
const sizePattern = /^(0|[1-9][0-9]{0,11})(KiB|MiB|GiB)$/;

/** Bytes of `64KiB`, `20MiB` or `1GiB`; null for any other text. */
export function parseSize(text: string): number | null {
  const [, number, unit = ""] = sizePattern.exec(text) ?? [];
  return number === undefined ? null : Number(number) * (unitBytes[unit] ?? 1);
}

/** A size in the largest unit that keeps it whole; without such a unit the number of bytes. */
export function formatSize(bytes: number): string | number {
  const found = Object.entries(unitBytes).find(([, one]) => bytes >= one && bytes % one === 0);
  return found === undefined ? bytes : `${bytes / found[1]}${found[0]}`;
}
