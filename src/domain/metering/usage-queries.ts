import { Turns } from "../../lib/clock.js";
import { groupBy } from "../../lib/collections.js";
import { type CallContext, errorOfEnd } from "../call/call-context.js";
import { type FairShares, runInShare } from "../call/fair-shares.js";
import { type Clock, pause } from "../call/ports.js";
import { accountOf } from "../call/principal.js";
import { type LimitScope, windowExpiryMs } from "../call/rate-limits.js";
import { refuseValue } from "../call/service-error.js";
import type { Ledger, LimitRefusal, WindowUse } from "./ledger.js";
import type { LimitBook } from "./limit-book.js";
import { errorOfRefusal } from "./limit-response.js";
import {
  type GroupedUsage,
  lastName,
  type UsageCursor,
  type UsageGroup,
  UsageGrouping,
  type UsageGroups,
  type UsageReader,
} from "./usage-store.js";

export interface UsageQuery {
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

/** Sums of one bucket for one group. Dimensions that the query does not group by are null. */
export type UsageResult = Omit<GroupedUsage, "startMs">;

export interface UsageBucket {
  readonly startMs: number;
  readonly endMs: number;
  /** In the order of model, key and operation; empty when nothing was used. */
  readonly results: readonly UsageResult[];
}

export interface UsagePage {
  /** Rising; one per hour or day of the range, used or not. */
  readonly buckets: readonly UsageBucket[];
  readonly next: string | null;
}

export interface UsageQueriesDeps {
  readonly usage: Pick<UsageReader, "groups">;
  readonly ledger: Pick<Ledger, "inspect" | "chargeRefused">;
  readonly limitBook: Pick<LimitBook, "scopesOf">;
  /** Bounds how many reads run at the same time, shared fairly between accounts. */
  readonly shares: Pick<FairShares, "usage_reads">;
  readonly clock: Clock;
  /** Store time. */
  readonly now: () => number;
}

type UsageCaller = Pick<CallContext, "principal" | "requestId" | "signal" | "address">;

/** Minimum interval between two updates of a watch. */
const watchEveryMs = 2_000;
/** Retry-After of a concurrency limit, the same as for inference. */
const concurrencyRetryMs = 1_000;

/**
 * Reads of usage. A key may read its own account, the administrator any account (USE-10, SEC-22). A read counts as one
 * request and as one concurrent request of its key; it charges no tokens and records no usage (E-10).
 */
export class UsageQueries {
  readonly #deps: UsageQueriesDeps;
  /** Reads in progress, by key. */
  readonly #running = new Map<string, number>();
  /**
   * Admissions of one key run one after the other: two at the same time would both get the last place of a concurrency
   * limit.
   */
  readonly #admitting = new Map<string, Promise<unknown>>();

  constructor(deps: UsageQueriesDeps) {
    this.#deps = deps;
  }

  /** An empty `account` means the caller's own account. Rejects with ServiceError, also when the client disconnects. */
  async query(caller: UsageCaller, query: UsageQuery): Promise<UsagePage> {
    const account = accountOf(caller.principal, query.account);
    const release = await this.#admit(caller);
    try {
      return await this.#read(caller, { ...query, account });
    } finally {
      release();
    }
  }

  /** Yields the current day immediately and after each change, until the signal aborts. Rejects with ServiceError. */
  async *watch(
    caller: UsageCaller,
    request: { readonly account: string; readonly groupBy: readonly UsageGroup[] },
  ): AsyncGenerator<UsageBucket> {
    const { signal } = caller;
    const account = accountOf(caller.principal, request.account);
    const range = { startMs: null, endMs: null, width: "day", limit: 1, page: "" } as const;
    const today = { account, groupBy: request.groupBy, ...range };
    const release = await this.#admit(caller);
    try {
      let sent = "";
      for (;;) {
        if (signal.aborted) throw errorOfEnd(signal.reason);
        const { buckets } = await this.#read(caller, today);
        const bucket = buckets[0];
        const state = fingerprint(bucket);
        if (bucket !== undefined && state !== sent) yield bucket;
        sent = state;
        await pause(this.#deps.clock, watchEveryMs, signal);
      }
    } finally {
      release();
    }
  }

  async #read(caller: UsageCaller, query: UsageQuery): Promise<UsagePage> {
    const { signal } = caller;
    try {
      return await runInShare(this.#deps.shares.usage_reads, caller, signal, () =>
        queryUsage(this.#deps, query, signal),
      );
    } catch (error) {
      throw signal.aborted ? errorOfEnd(signal.reason) : error;
    }
  }

  /** Charges the request. The returned function ends the read. */
  async #admit({ principal, requestId }: UsageCaller): Promise<() => void> {
    const { keyId, account } = principal;
    const scopes = this.#deps.limitBook.scopesOf(principal, null).filter(({ owner }) => owner.kind === "key");
    const [scope] = scopes;
    if (keyId === null || scope === undefined) return () => {};
    const { ledger } = this.#deps;
    const admitted = (this.#admitting.get(keyId) ?? Promise.resolve()).then(async () => {
      const [use] = await ledger.inspect(account, scopes);
      const running = this.#running.get(keyId) ?? 0;
      const refusal = readRefusal(scope, use, running);
      if (refusal !== null) throw errorOfRefusal({ refusal, degraded: false });
      await ledger.chargeRefused({ requestId, account, keyId, scopes });
      this.#running.set(keyId, running + 1);
    });
    const settled = admitted.catch(() => {});
    this.#admitting.set(keyId, settled);
    try {
      await admitted;
    } finally {
      if (this.#admitting.get(keyId) === settled) this.#admitting.delete(keyId);
    }
    return () => {
      const left = (this.#running.get(keyId) ?? 1) - 1;
      if (left === 0) this.#running.delete(keyId);
      else this.#running.set(keyId, left);
    };
  }
}

/** The end of the current bucket is left out: it moves with the clock, and this alone is not a change. */
function fingerprint(bucket: UsageBucket | undefined): string {
  if (bucket === undefined) return "";
  const results = bucket.results.map((result) => Object.values(result).map(String).join("/"));
  return `${bucket.startMs} ${results.join(" ")}`;
}

function readRefusal({ owner, limits }: LimitScope, use: WindowUse | undefined, reads: number): LimitRefusal | null {
  const requests = use?.requests ?? 0;
  const running = (use?.running ?? 0) + reads;
  const { requestsPerMinute, concurrency } = limits;
  if (requestsPerMinute !== null && requests >= requestsPerMinute) {
    const figures = { owner, limit: requestsPerMinute, used: requests, requested: 1 };
    return { which: "requests", ...figures, retryAfterMs: requestsPerMinute === 0 ? null : windowExpiryMs };
  }
  if (concurrency !== null && running >= concurrency) {
    const figures = { owner, limit: concurrency, used: running, requested: 1 };
    return { which: "concurrency", ...figures, retryAfterMs: concurrency === 0 ? null : concurrencyRetryMs };
  }
  return null;
}

const hourMs = 3_600_000;
const widths = {
  hour: { ms: hourMs, limitDefault: 24, limitMax: 168, name: "hours" },
  day: { ms: 24 * hourMs, limitDefault: 7, limitMax: 31, name: "days" },
} as const;

/** Retention (USE-15); a range that begins before it is cut. */
const keptMs = { hour: 90 * 24 * hourMs, day: 2 * 366 * 24 * hourMs } as const;

/** Maximum results of a page. A page that would have more ends earlier, and `next` continues from there. */
const resultsMax = 5_000;

const pageForm = /^page_(\d{1,15})(?:\.([\w-]{1,2000}))?$/;

/** Reads one page of usage (USE-10). Rejects with ServiceError that names the field at fault. */
export async function queryUsage(
  deps: { readonly usage: Pick<UsageReader, "groups">; readonly now: () => number },
  query: UsageQuery,
  signal: AbortSignal,
): Promise<UsagePage> {
  const range = rangeOf(query, deps.now());
  const { ms } = widths[query.width];
  const { groups, next, endMs } = await read(deps.usage, query, range, signal);
  const toMs = next === null ? range.toMs : next.startMs + ms;
  const byStart = groupBy(groups, ({ startMs }) => startMs);
  const buckets: UsageBucket[] = [];
  const turns = new Turns();
  for (let startMs = range.fromMs; startMs < toMs; startMs += ms) {
    await turns.next();
    const results = (byStart.get(startMs) ?? []).sort(byNames).map(({ startMs: _, ...result }) => result);
    buckets.push({ startMs, endMs: Math.min(startMs + ms, Math.max(endMs, startMs)), results });
  }
  return { buckets, next: pageAfter(next, toMs, endMs) };
}

interface Range {
  /** Whole buckets of one page. */
  readonly fromMs: number;
  readonly toMs: number;
  /** Position in the first bucket where the last page ended; null: its start. */
  readonly after: UsageCursor | null;
  /** End of the whole range: nothing after it is counted. A whole hour, or now. */
  readonly endMs: number;
  readonly nowMs: number;
}

/** The finest sums are hourly, so the end of the range is `end_time` rounded up to a whole hour. */
function rangeOf({ startMs, endMs, width, limit, page }: UsageQuery, nowMs: number): Range {
  const { ms } = widths[width];
  const count = bucketsPerPage(width, limit);
  const end = endMs === null ? nowMs : Math.min(Math.ceil(endMs / hourMs) * hourMs, nowMs + ms);
  const lastMs = Math.floor((end - 1) / ms) * ms;
  const start = startMs === null ? lastMs - (count - 1) * ms : Math.floor(startMs / ms) * ms;
  if (startMs !== null && startMs >= (endMs ?? Number.POSITIVE_INFINITY)) {
    refuseValue("start_time", "'start_time' must be before 'end_time'.");
  }
  const oldestMs = Math.floor((nowMs - keptMs[width]) / ms) * ms;
  const firstMs = Math.max(start, oldestMs, 0);
  const after = page === "" ? null : parsePage(page, firstMs, ms);
  const fromMs = after?.startMs ?? firstMs;
  return { fromMs, toMs: Math.min(fromMs + count * ms, lastMs + ms), after, endMs: end, nowMs };
}

function bucketsPerPage(width: UsageQuery["width"], limit: number | null): number {
  const { limitDefault, limitMax, name } = widths[width];
  if (limit === null) return limitDefault;
  if (Number.isInteger(limit) && limit >= 1 && limit <= limitMax) return limit;
  refuseValue("limit", `'limit' must be 1 to ${limitMax} ${name}, not ${limit}.`);
}

function parsePage(page: string, firstMs: number, bucketMs: number): UsageCursor {
  const [, start, position] = pageForm.exec(page) ?? [];
  const startMs = Number(start ?? Number.NaN);
  const names = position === undefined ? ["", ""] : namesIn(position);
  if (startMs >= firstMs && startMs % bucketMs === 0 && names !== null) {
    const [keyId = "", model = ""] = names;
    return { startMs, keyId, model };
  }
  refuseValue("page", "'page' is not a page of this query: use next_page as it came.");
}

function namesIn(position: string): readonly string[] | null {
  try {
    const names: unknown = JSON.parse(Buffer.from(position, "base64url").toString());
    return Array.isArray(names) && names.every((name) => typeof name === "string") ? names : null;
  } catch {
    return null;
  }
}

function pageAfter(next: UsageCursor | null, toMs: number, endMs: number): string | null {
  if (next === null || next.keyId === lastName) return toMs < endMs ? `page_${toMs}` : null;
  const position = Buffer.from(JSON.stringify([next.keyId, next.model])).toString("base64url");
  return `page_${next.startMs}.${position}`;
}

/** A partial last day is added up from its hours if they fit into one page. */
async function read(
  usage: Pick<UsageReader, "groups">,
  { account, width, groupBy }: UsageQuery,
  { fromMs, toMs, after, endMs, nowMs }: Range,
  signal: AbortSignal,
): Promise<UsageGroups & { readonly endMs: number }> {
  if (fromMs >= toMs) return { ...noGroups, endMs };
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

function byNames(a: GroupedUsage, b: GroupedUsage): number {
  return compareText(a.model, b.model) || compareText(a.keyId, b.keyId) || compareText(a.operation, b.operation);
}

function compareText(a: string | null, b: string | null): number {
  if (a === b) return 0;
  return (a ?? "") < (b ?? "") ? -1 : 1;
}
