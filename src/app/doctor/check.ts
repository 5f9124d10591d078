import type { Logger } from "../../domain/call/ports.js";
import type { Finding } from "../../domain/service/service-status.js";

/** One finding of `uis doctor`. */
export type Check = Finding;

export function ok(check: string, detail: string): Check {
  return { check, status: "ok", detail, fix: null };
}

export function warn(check: string, detail: string, fix: string): Check {
  return { check, status: "warn", detail, fix };
}

export function fail(check: string, detail: string, fix: string): Check {
  return { check, status: "fail", detail, fix };
}

/** Discards log lines: the checks report the same problems as findings. */
export const silentLog: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** A clock of another machine. */
export interface OtherClock {
  /** "Redis", or the address of the hub. */
  readonly name: string;
  /** How far this machine's clock is ahead of it; negative: behind. */
  readonly aheadMs: number;
}

/** Difference of clocks that is a warning; the error of the measurement is smaller. */
const warnFromMs = 10_000;
/** Difference of clocks that is a failure: receivers of webhooks reject such timestamps. */
const failFromMs = 300_000;
/** An earlier time of the clock is wrong: it is before the first release. */
const earliestMs = Date.UTC(2026, 0, 1);

/** Compares this machine's clock. `other` null: there is no clock to compare it with. */
export function clockCheck(nowMs: number, other: OtherClock | null): Check {
  const fix = "set the clock of this machine, and synchronize it: timedatectl set-ntp true";
  if (nowMs < earliestMs) return fail("clock", `it shows ${new Date(nowMs).toISOString()}`, fix);
  if (other === null) return ok("clock", "not compared: there is no other clock to compare it with");
  const { name, aheadMs } = other;
  const offMs = Math.abs(aheadMs);
  if (offMs < warnFromMs) return ok("clock", `agrees with the clock of ${name}`);
  const detail = `${Math.round(offMs / 1_000)} s ${aheadMs > 0 ? "ahead of" : "behind"} the clock of ${name}`;
  if (offMs < failFromMs) return warn("clock", detail, fix);
  return fail("clock", `${detail}: receivers reject webhooks signed with it`, fix);
}
