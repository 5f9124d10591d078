/** One finding of `uis doctor`. */
export interface Check {
  /** What was looked at: `node`, `data_dir`, … */
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly detail: string;
  /** What to do about it; null when all is well. */
  readonly fix: string | null;
}

export function ok(check: string, detail: string): Check {
  return { check, status: "ok", detail, fix: null };
}

export function warn(check: string, detail: string, fix: string): Check {
  return { check, status: "warn", detail, fix };
}

export function fail(check: string, detail: string, fix: string): Check {
  return { check, status: "fail", detail, fix };
}
