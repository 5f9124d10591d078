import type { Finding } from "../../domain/service/doctor.js";

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
