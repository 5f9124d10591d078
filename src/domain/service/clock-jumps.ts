import type { Logger } from "../call/ports.js";

/** The store's clock, for health and metrics. */
export interface ClockHealth {
  /** Jumps since the start of this process. */
  readonly jumps: number;
  /** After the clock was set back: how far the newest time of this process or its store is ahead of the clock. Otherwise 0. */
  readonly aheadMs: number;
}

interface ClockJumpsDeps {
  /** Subject of the messages: "this machine's clock", "the clock of Redis". */
  readonly whose: string;
  readonly monotonic: () => number;
  readonly log: Pick<Logger, "warn">;
}

/** Time for which the last jump is reported in the warnings. */
const reportedMs = 86_400_000;
/**
 * Number of jumps that are all logged. After them at most one per minute is logged, because an unsteady clock can jump with
 * every request.
 */
const loggedAlways = 10;
const logEveryMs = 60_000;

/**
 * Logs and counts steps of the store's clock that are larger than store time may be ahead of it (E-22), and warns of the
 * last one for a day.
 */
export class ClockJumps {
  readonly #deps: ClockJumpsDeps;
  #count = 0;
  #last: { readonly byMs: number; readonly atMs: number } | null = null;
  #loggedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: ClockJumpsDeps) {
    this.#deps = deps;
  }

  get count(): number {
    return this.#count;
  }

  /** Records a jump. `byMs` is positive for a jump forward, negative for a jump back. */
  note(byMs: number): void {
    const { monotonic, log, whose } = this.#deps;
    const atMs = monotonic();
    this.#count += 1;
    this.#last = { byMs, atMs };
    if (this.#count > loggedAlways && atMs - this.#loggedAtMs < logEveryMs) return;
    this.#loggedAtMs = atMs;
    log.warn({ by_ms: Math.round(byMs), jumps: this.#count }, `${whose} ${jumpText(byMs)}: store time follows it`);
  }

  /** Whether the clock has jumped within this time. */
  isWithin(ms: number): boolean {
    return this.#last !== null && this.#deps.monotonic() - this.#last.atMs < ms;
  }

  /** Warnings for the health of the store. `fix`: advice about times that were stored while the clock was wrong. */
  warnings(aheadMs: number, aheadWarnMs: number, fix: string): readonly string[] {
    const { monotonic, whose } = this.#deps;
    const warnings: string[] = [];
    const last = this.#last;
    const agoMs = last === null ? Number.POSITIVE_INFINITY : monotonic() - last.atMs;
    const subject = whose.charAt(0).toUpperCase() + whose.slice(1);
    if (last !== null && agoMs < reportedMs) {
      warnings.push(
        `${subject} ${jumpText(last.byMs)} ${spanText(agoMs)} ago. Synchronize it: timedatectl set-ntp true`,
      );
    }
    if (aheadMs > aheadWarnMs) warnings.push(`Stored times are up to ${spanText(aheadMs)} ahead of ${whose}. ${fix}`);
    return warnings;
  }
}

function jumpText(byMs: number): string {
  if (byMs < 0) return `was set back by ${spanText(-byMs)}`;
  return `was set forward by ${spanText(byMs)}, or the machine was suspended`;
}

const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
] as const;

/** A rounded time span as text, in the largest unit of which it has at least two: `40 d`, `90 min`. */
function spanText(ms: number): string {
  const [name, unitMs] = units.find(([, unitMs]) => ms >= 2 * unitMs) ?? ["s", 1_000];
  return `${Math.round(ms / unitMs)} ${name}`;
}
