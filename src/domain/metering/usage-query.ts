import { ServiceError } from "../call/service-error.js";
import type { UsageSums } from "../events/threshold.js";
import {
  lastName,
  type UsageCursor,
  type UsageGroup,
  UsageGrouping,
  type UsageGroups,
  type UsageReader,
} from "./usage-store.js";

export interface UsageQuestion {
  readonly account: string;
  /** Wall-clock milliseconds; rounded down to the start of its bucket. Null: as many buckets as the limit, up to now. */
  readonly startMs: number | null;
  /** Exclusive, rounded up to a whole hour; null: now. */
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

/** Results of one page. A page that would have more ends earlier, and `next` goes on from there. */
const resultsMax = 5_000;

const pageForm = /^page_(\d{1,15})(?:\.([\w-]{1,2000}))?$/;

/** Answers questions about usage (USE-10). Rejects with ServiceError that names the field at fault. */
export async function queryUsage(
  deps: { readonly usage: Pick<UsageReader, "groups">; readonly now: () => number },
  question: UsageQuestion,
  signal: AbortSignal,
): Promise<UsagePage> {
  const range = rangeOf(question, deps.now());
  const { ms } = widths[question.width];
  const { groups, next, endMs } = await read(deps.usage, question, range, signal);
  const toMs = next === null ? range.toMs : next.startMs + ms;
  const byStart = new Map<number, UsageResult[]>();
  for (const { startMs, ...result } of groups) {
    const results = byStart.get(startMs);
    if (results === undefined) byStart.set(startMs, [result]);
    else results.push(result);
  }
  const buckets: UsageBucket[] = [];
  for (let startMs = range.fromMs; startMs < toMs; startMs += ms) {
    const results = (byStart.get(startMs) ?? []).sort(byModelThenKey);
    buckets.push({ startMs, endMs: Math.min(startMs + ms, Math.max(endMs, startMs)), results });
  }
  return { buckets, next: pageAfter(next, toMs, endMs) };
}

interface Range {
  /** Whole buckets of one page. */
  readonly fromMs: number;
  readonly toMs: number;
  /** Where the last page left off within the first bucket; null: at its begin. */
  readonly after: UsageCursor | null;
  /** End of the whole range: nothing after it is counted. A whole hour, or now. */
  readonly endMs: number;
  readonly nowMs: number;
}

/** Sums are kept by the hour at best, so the range ends with the hour that `end_time` lies in. */
function rangeOf({ startMs, endMs, width, limit, page }: UsageQuestion, nowMs: number): Range {
  const { ms } = widths[width];
  const count = limitOf(width, limit);
  const end = endMs === null ? nowMs : Math.min(Math.ceil(endMs / hourMs) * hourMs, nowMs + ms);
  const lastMs = Math.floor((end - 1) / ms) * ms;
  const start = startMs === null ? lastMs - (count - 1) * ms : Math.floor(startMs / ms) * ms;
  if (startMs !== null && startMs >= (endMs ?? Number.POSITIVE_INFINITY)) {
    throw new ServiceError("invalid_value", "'start_time' must be before 'end_time'.", { param: "start_time" });
  }
  const oldestMs = Math.floor((nowMs - keptMs[width]) / ms) * ms;
  const firstMs = Math.max(start, oldestMs, 0);
  const after = page === "" ? null : parsePage(page, firstMs, ms);
  const fromMs = after?.startMs ?? firstMs;
  return { fromMs, toMs: Math.min(fromMs + count * ms, lastMs + ms), after, endMs: end, nowMs };
}

function limitOf(width: UsageQuestion["width"], limit: number | null): number {
  const { limitDefault, limitMax, name } = widths[width];
  if (limit === null) return limitDefault;
  if (Number.isInteger(limit) && limit >= 1 && limit <= limitMax) return limit;
  throw new ServiceError("invalid_value", `'limit' must be 1 to ${limitMax} ${name}, not ${limit}.`, {
    param: "limit",
  });
}

function parsePage(page: string, firstMs: number, bucketMs: number): UsageCursor {
  const [, start, place] = pageForm.exec(page) ?? [];
  const startMs = Number(start ?? Number.NaN);
  const names = place === undefined ? ["", ""] : namesIn(place);
  if (startMs >= firstMs && startMs % bucketMs === 0 && names !== null) {
    const [keyId = "", model = ""] = names;
    return { startMs, keyId, model };
  }
  throw new ServiceError("invalid_value", "'page' is not a page of this query: use next_page as it came.", {
    param: "page",
  });
}

function namesIn(place: string): readonly string[] | null {
  try {
    const names: unknown = JSON.parse(Buffer.from(place, "base64url").toString());
    return Array.isArray(names) && names.every((name) => typeof name === "string") ? names : null;
  } catch {
    return null;
  }
}

function pageAfter(next: UsageCursor | null, toMs: number, endMs: number): string | null {
  if (next === null || next.keyId === lastName) return toMs < endMs ? `page_${toMs}` : null;
  const place = Buffer.from(JSON.stringify([next.keyId, next.model])).toString("base64url");
  return `page_${next.startMs}.${place}`;
}

/** A day that ends early is added up from its hours, as long as they fit into one page. */
async function read(
  usage: Pick<UsageReader, "groups">,
  { account, width, groupBy }: UsageQuestion,
  { fromMs, toMs, after, endMs, nowMs }: Range,
  signal: AbortSignal,
): Promise<UsageGroups & { readonly endMs: number }> {
  if (fromMs >= toMs) return { groups: [], next: null, endMs };
  const query = { account, width, groupBy, after, groupsMax: resultsMax, fromMs, toMs };
  const lastDayMs = toMs - widths.day.ms;
  const isCut = width === "day" && endMs % hourMs === 0 && endMs < toMs && endMs > lastDayMs && endMs < nowMs;
  if (!isCut || (after !== null && after.startMs === lastDayMs && after.keyId !== "")) {
    return { ...(await usage.groups(query, signal)), endMs: isCut ? Math.min(toMs, nowMs) : endMs };
  }
  const before = lastDayMs > fromMs ? await usage.groups({ ...query, toMs: lastDayMs }, signal) : noGroups;
  if (before.next !== null) return { ...before, endMs };
  const hourly = { ...query, width: "hour", fromMs: lastDayMs, toMs: endMs, after: null } as const;
  const hours = await usage.groups(hourly, signal);
  const isHourly = hours.next === null && lastDayMs >= nowMs - keptMs.hour;
  if (!isHourly) return { ...(await usage.groups(query, signal)), endMs: Math.min(toMs, nowMs) };
  const grouping = new UsageGrouping({ groupBy, groupsMax: 2 * resultsMax });
  for (const group of [...before.groups, ...hours.groups.map((hour) => ({ ...hour, startMs: lastDayMs }))]) {
    grouping.add(group);
  }
  return { ...grouping.rest(), endMs };
}

const noGroups: UsageGroups = { groups: [], next: null };

function byModelThenKey(a: UsageResult, b: UsageResult): number {
  return compareText(a.model, b.model) || compareText(a.keyId, b.keyId);
}

function compareText(a: string | null, b: string | null): number {
  if (a === b) return 0;
  return (a ?? "") < (b ?? "") ? -1 : 1;
}
