import type { PeriodKind } from "./threshold.js";

/** One day or month of UTC. */
export interface Period {
  readonly kind: PeriodKind;
  readonly startMs: number;
  /** First instant of the next one. */
  readonly endMs: number;
}

/** The period that an instant lies in. */
export function periodAt(kind: PeriodKind, atMs: number): Period {
  const at = new Date(atMs);
  const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
  return kind === "day"
    ? { kind, startMs: Date.UTC(year, month, day), endMs: Date.UTC(year, month, day + 1) }
    : { kind, startMs: Date.UTC(year, month, 1), endMs: Date.UTC(year, month + 1, 1) };
}

/** `2026-11-21` or `2026-11`: how a period is named in ids and keys that are kept. */
export function periodName({ kind, startMs }: Period): string {
  return new Date(startMs).toISOString().slice(0, kind === "day" ? 10 : 7);
}
