import { groupBy } from "../../lib/group-by.js";
import { ServiceError } from "../call/service-error.js";
import type { UsageSums } from "../events/threshold.js";
import type { UsageReader, UsageRow } from "./usage-store.js";

export type UsageGroup = "model" | "key";

export interface UsageQuestion {
  readonly account: string;
  /** Wall-clock milliseconds; taken down to the begin of its bucket. Null: as many buckets as the limit, up to now. */
  readonly startMs: number | null;
  /** Exclusive; null: now. */
  readonly endMs: number | null;
  readonly width: "hour" | "day";
  readonly groupBy: readonly UsageGroup[];
  /** Buckets of one page; null: 24 hours or 7 days. */
  readonly limit: number | null;
  /** `next` of the page before; empty for the first. */
  readonly page: string;
}

/** Sums of one bucket over what is not grouped by: `model` and `keyId` are null where they are summed over. */
export interface UsageResult extends UsageSums {
  readonly model: string | null;
  readonly keyId: string | null;
}

export interface UsageBucket {
  readonly startMs: number;
  readonly endMs: number;
  /** In the order of model and key; empty when nothing was used. */
  readonly results: readonly UsageResult[];
}

export interface UsagePage {
  /** Rising; one per hour or day of the range, used or not. */
  readonly buckets: readonly UsageBucket[];
  readonly next: string | null;
}

const hourMs = 3_600_000;
const widths = {
  hour: { ms: hourMs, limitDefault: 24, limitMax: 168, name: "hours" },
  day: { ms: 24 * hourMs, limitDefault: 7, limitMax: 31, name: "days" },
} as const;

/** Nothing is kept for longer (USE-15); a range that begins before is cut. */
const keptMs = { hour: 90 * 24 * hourMs, day: 2 * 366 * 24 * hourMs } as const;

const pageForm = /^page_(\d{1,15})$/;

/** Answers questions about what was used (USE-10). Rejects with ServiceError that names the field at fault. */
export async function queryUsage(
  deps: { readonly usage: Pick<UsageReader, "rows">; readonly now: () => number },
  question: UsageQuestion,
): Promise<UsagePage> {
  const nowMs = deps.now();
  const { fromMs, endMs, toMs } = rangeOf(question, nowMs);
  const { ms } = widths[question.width];
  const rows = fromMs < toMs ? await deps.usage.rows({ ...question, fromMs, toMs }) : [];
  const byStart = groupBy(rows, ({ startMs }) => startMs);
  const buckets: UsageBucket[] = [];
  for (let startMs = fromMs; startMs < toMs; startMs += ms) {
    const results = resultsOf(byStart.get(startMs) ?? [], question.groupBy);
    buckets.push({ startMs, endMs: Math.min(startMs + ms, Math.max(endMs, startMs)), results });
  }
  return { buckets, next: toMs < endMs ? `page_${toMs}` : null };
}

/** The range of one page, in whole buckets, and the end of the whole range. */
function rangeOf({ startMs, endMs, width, limit, page }: UsageQuestion, nowMs: number) {
  const { ms } = widths[width];
  const count = limitOf(width, limit);
  const end = Math.min(endMs ?? nowMs, nowMs + ms);
  const lastMs = Math.floor((end - 1) / ms) * ms;
  const start = startMs === null ? lastMs - (count - 1) * ms : Math.floor(startMs / ms) * ms;
  if (startMs !== null && startMs >= (endMs ?? Number.POSITIVE_INFINITY)) {
    throw new ServiceError("invalid_value", "'start_time' must be before 'end_time'.", { param: "start_time" });
  }
  const oldestMs = Math.floor((nowMs - keptMs[width]) / ms) * ms;
  const firstMs = Math.max(start, oldestMs, 0);
  const fromMs = page === "" ? firstMs : pageStart(page, firstMs, ms);
  return { fromMs, endMs: end, toMs: Math.min(fromMs + count * ms, lastMs + ms) };
}

function limitOf(width: UsageQuestion["width"], limit: number | null): number {
  const { limitDefault, limitMax, name } = widths[width];
  if (limit === null) return limitDefault;
  if (Number.isInteger(limit) && limit >= 1 && limit <= limitMax) return limit;
  throw new ServiceError("invalid_value", `'limit' must be 1 to ${limitMax} ${name}, not ${limit}.`, {
    param: "limit",
  });
}

function pageStart(page: string, firstMs: number, bucketMs: number): number {
  const startMs = Number(pageForm.exec(page)?.[1] ?? Number.NaN);
  if (startMs >= firstMs && startMs % bucketMs === 0) return startMs;
  throw new ServiceError("invalid_value", "'page' is not a page of this query: use next_page as it came.", {
    param: "page",
  });
}

function resultsOf(rows: readonly UsageRow[], groups: readonly UsageGroup[]): readonly UsageResult[] {
  const byModel = groups.includes("model");
  const byKey = groups.includes("key");
  const grouped = groupBy(rows, ({ model, keyId }) => JSON.stringify([byModel ? model : null, byKey ? keyId : null]));
  return [...grouped.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([, group]) => ({
      ...sumOfRows(group),
      model: byModel ? (group[0]?.model ?? null) : null,
      keyId: byKey ? (group[0]?.keyId ?? null) : null,
    }));
}

/** The sums of several rows; all zero for none. */
export function sumOfRows(rows: readonly UsageSums[]): UsageSums {
  const sum = { requests: 0n, promptTokens: 0n, completionTokens: 0n, cachedTokens: 0n, costNano: 0n };
  for (const row of rows) {
    sum.requests += row.requests;
    sum.promptTokens += row.promptTokens;
    sum.completionTokens += row.completionTokens;
    sum.cachedTokens += row.cachedTokens;
    sum.costNano += row.costNano;
  }
  return sum;
}
