import type { Logger } from "../call/ports.js";

/** The store's clock, for health and metrics. */
export interface ClockHealth {
  /** Jumps since the start of this process. */
  readonly jumps: number;
  /** How far the newest time of this process or its store is ahead of the clock, which was set back; else 0. */
  readonly aheadMs: number;
}

interface ClockJumpsDeps {
  /** Subject of the messages: "this machine's clock", "the clock of Redis". */
  readonly whose: string;
  readonly monotonic: () => number;
  readonly log: Pick<Logger, "warn">;
}

/** How long the last jump stays in the warnings. */
const reportedMs = 86_400_000;
/** An unsteady clock can jump with every request: after these lines one is logged a minute. */
const loggedAlways = 10;
const logEveryMs = 60_000;

/** Steps of the store's clock beyond the lead that store time may have (E-22): logged, counted and reported for a day. */
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

  /** `byMs`: positive forward, negative back. */
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

  /** For the health of the store. `fix`: what the operator can do about times that were stored meanwhile. */
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

/** A rounded span for people, in the largest unit of which it has at least two: `40 d`, `90 min`. */
function spanText(ms: number): string {
  const [name, unitMs] = units.find(([, unitMs]) => ms >= 2 * unitMs) ?? ["s", 1_000];
  return `${Math.round(ms / unitMs)} ${name}`;
}
