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

/** Another clock that ours was compared with. */
export interface OtherClock {
  /** Whose: "Redis", … */
  readonly name: string;
  /** How far ours is ahead of it; negative: behind. */
  readonly aheadMs: number;
}

/** Beside what a round trip and a clock that tells seconds only explain. */
const warnFromMs = 10_000;
/** Receivers of webhooks refuse signatures that are so far off. */
const failFromMs = 300_000;
/** No release is older. */
const earliestMs = Date.UTC(2026, 0, 1);

/** Whether this machine's clock can be right. `other` null: there was nothing to compare it with. */
export function clockCheck(nowMs: number, other: OtherClock | null): Check {
  const fix = "set the clock of this machine, and keep it set: timedatectl set-ntp true";
  if (nowMs < earliestMs) return fail("clock", `it shows ${new Date(nowMs).toISOString()}`, fix);
  if (other === null) return ok("clock", "not compared: no other clock was asked");
  const { name, aheadMs } = other;
  const offMs = Math.abs(aheadMs);
  if (offMs < warnFromMs) return ok("clock", `agrees with the clock of ${name}`);
  const detail = `${Math.round(offMs / 1_000)} s ${aheadMs > 0 ? "ahead of" : "behind"} the clock of ${name}`;
  if (offMs < failFromMs) return warn("clock", detail, fix);
  return fail("clock", `${detail}: receivers refuse webhooks that are signed with it`, fix);
}
