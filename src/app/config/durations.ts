/** Milliseconds per unit, longest first, so that a length is written with the unit that keeps it whole. */
const unitMs = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 } as const;

type Unit = keyof typeof unitMs;

/** What a length of time looks like: one whole number and one unit. Published in the JSON Schema. */
export const durationPattern = /^(0|[1-9][0-9]{0,11})(ms|s|m|h|d)$/;

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
