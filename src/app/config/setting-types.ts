import { isDeepStrictEqual } from "node:util";
import * as z from "zod";

/** A length of time: text such as `30s` in the file, milliseconds in the program. Bounds are milliseconds. */
export function duration(minMs: number, maxMs: number) {
  const written = z.string({ error: durationMessage }).regex(durationPattern, { error: durationMessage });
  return z.codec(written, z.number(), {
    decode(text, ctx) {
      const ms = parseDuration(text);
      if (ms !== null && ms >= minMs && ms <= maxMs) return ms;
      ctx.issues.push({
        code: "custom",
        input: text,
        message: `must be between ${formatDuration(minMs)} and ${formatDuration(maxMs)}`,
      });
      return z.NEVER;
    },
    encode: formatDuration,
  });
}

const durationMessage = "must be a time such as 250ms, 30s, 2m or 5h";

/** A size: a number of bytes or text such as `64KiB` in the file, bytes in the program. Bounds are bytes. */
export function size(minBytes: number, maxBytes: number) {
  const written = z.union([z.int().min(0), z.string().regex(sizePattern, { error: sizeMessage })], {
    error: sizeMessage,
  });
  return z.codec(written, z.number(), {
    decode(value, ctx) {
      const bytes = typeof value === "number" ? value : parseSize(value);
      if (bytes !== null && bytes >= minBytes && bytes <= maxBytes) return bytes;
      ctx.issues.push({
        code: "custom",
        input: value,
        message: `must be between ${formatSize(minBytes)} and ${formatSize(maxBytes)}`,
      });
      return z.NEVER;
    },
    encode: formatSize,
  });
}

const sizeMessage = "must be a size such as 65536, 64KiB or 20MiB";

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

/**
 * A setting of a later version. Its default is accepted, so that a complete example file works; any other value is
 * refused, because a setting that is accepted and ignored misleads.
 */
export function notYet(defaultValue: string | number | boolean | null | readonly unknown[] | Readonly<object>) {
  return z
    .unknown()
    .refine((value) => isDeepStrictEqual(value, defaultValue), { error: notYetMessage })
    .prefault(defaultValue)
    .meta({ description: "Not in this version: only the default is accepted.", const: defaultValue });
}

const notYetMessage = "this version does not have this setting yet; leave it out";

/** Milliseconds per unit, longest first, so that a length is written with the unit that keeps it whole. */
const unitMs = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const;

type Unit = keyof typeof unitMs;

/** What a length of time looks like: one whole number and one unit. Published in the JSON Schema. */
const durationPattern = /^(0|[1-9][0-9]{0,11})(ms|s|m|h|d)$/;

/** Milliseconds of `250ms`, `30s`, `2m`, `5h` or `30d`; null when the text is none of these. */
export function parseDuration(text: string): number | null {
  const match = durationPattern.exec(text);
  if (match === null) return null;
  return Number(match[1]) * unitMs[match[2] as Unit];
}

/** The shortest text that `parseDuration` reads back to the same length. `ms` is a whole number, 0 or more. */
export function formatDuration(ms: number): string {
  if (ms === 0) return "0s";
  for (const [unit, size] of Object.entries(unitMs)) {
    if (ms % size === 0) return `${ms / size}${unit}`;
  }
  return `${ms}ms`;
}

const unitBytes = { GiB: 1024 ** 3, MiB: 1024 ** 2, KiB: 1024 } as const;

type SizeUnit = keyof typeof unitBytes;

/** What a size with a unit looks like. A bare whole number is bytes. Published in the JSON Schema. */
const sizePattern = /^(0|[1-9][0-9]{0,11})(KiB|MiB|GiB)$/;

/** Bytes of `64KiB`, `20MiB` or `1GiB`; null when the text is none of these. */
export function parseSize(text: string): number | null {
  const match = sizePattern.exec(text);
  if (match === null) return null;
  return Number(match[1]) * unitBytes[match[2] as SizeUnit];
}

/** The size with the largest unit that keeps it whole; bytes as a number when none does. */
export function formatSize(bytes: number): string | number {
  for (const [unit, size] of Object.entries(unitBytes)) {
    if (bytes >= size && bytes % size === 0) return `${bytes / size}${unit}`;
  }
  return bytes;
}
