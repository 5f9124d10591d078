import { type Period, periodAt, type UsageScope, type UsageSums } from "../../domain/events/threshold.js";
import type { UsageRange, UsageRow } from "../../domain/metering/usage-store.js";
import { dropOldest, purgeMap } from "./bounded.js";
import { type UsageDelta, UsageSum } from "./usage-sum.js";

const hourMs = 60 * 60 * 1_000;
const dayMs = 24 * hourMs;
/** USE-15. */
const hoursKeptMs = 90 * dayMs;
const daysKeptMs = 731 * dayMs;
/** Of hours, of days and of periods, each; beyond it the oldest are dropped. */
const rowsMax = 200_000;

/** Who used what. */
export interface UsageOrigin {
  readonly account: string;
  readonly keyId: string | null;
  readonly model: string;
}

type Places = Map<string, Map<string | null, Map<string, readonly UsageSum[]>>>;

interface Row extends UsageOrigin {
  readonly startMs: number;
  readonly sum: UsageSum;
}

interface PeriodSum {
  readonly endMs: number;
  readonly sum: UsageSum;
}

const noUsage: UsageSums = new UsageSum().read();

/** Usage in memory: rows by hour and day, sums by day and month of each account and key. */
export class UsageTable {
  readonly #hours = new Map<string, Row>();
  readonly #days = new Map<string, Row>();
  readonly #periods = new Map<string, PeriodSum>();
  /**
   * Where the usage of one origin is added in one hour, so that a settlement looks up one thing instead of six. By account,
   * key and model, one in the other: one text of the three would have to be made, and hashed, for every request.
   */
  #places: Places = new Map();
  #placesHour = Number.NEGATIVE_INFINITY;

  /** Adds one settled request that ended at `atMs`, by the wall clock. */
  add(origin: UsageOrigin, delta: UsageDelta, atMs: number): void {
    for (const sum of this.#placesOf(origin, atMs)) sum.add(delta);
  }

  /** Sums of a period so far. */
  used(account: string, scope: UsageScope, period: Period): UsageSums {
    return this.#periods.get(periodKey(account, scope, period))?.sum.read() ?? noUsage;
  }

  /** In the order of start, key and model. */
  rows({ account, width, fromMs, toMs }: UsageRange): readonly UsageRow[] {
    const rows = width === "hour" ? this.#hours : this.#days;
    return [...rows.values()]
      .filter((row) => row.account === account && row.startMs >= fromMs && row.startMs < toMs)
      .sort(byPlace)
      .map(({ sum, ...row }) => ({ ...row, ...sum.read() }));
  }

  accounts(): Set<string> {
    const accounts = new Set<string>();
    for (const { account } of this.#days.values()) accounts.add(account);
    return accounts;
  }

  /** Forgets at most `max` rows and sums whose time is over; how many. */
  purge(nowMs: number, max: number): number {
    let purged = purgeMap(this.#hours, max, ({ startMs }) => startMs + hourMs <= nowMs - hoursKeptMs);
    purged += purgeMap(this.#days, max - purged, ({ startMs }) => startMs + dayMs <= nowMs - daysKeptMs);
    purged += purgeMap(this.#periods, max - purged, ({ endMs }) => endMs <= nowMs - daysKeptMs);
    // Whatever was forgotten must not be added to any more.
    if (purged > 0) this.#places = new Map();
    return purged;
  }

  #placesOf(origin: UsageOrigin, atMs: number): readonly UsageSum[] {
    const hour = Math.floor(atMs / hourMs);
    if (hour > this.#placesHour) {
      this.#places = new Map();
      this.#placesHour = hour;
    }
    // A settlement that waited in the spool belongs to an hour that is over.
    if (hour < this.#placesHour) return this.#findPlaces(origin, atMs);
    const { account, keyId, model } = origin;
    const known = this.#places.get(account)?.get(keyId)?.get(model);
    if (known !== undefined) return known;
    const places = this.#findPlaces(origin, atMs);
    inner(inner(this.#places, account), keyId).set(model, places);
    return places;
  }

  #findPlaces(origin: UsageOrigin, atMs: number): readonly UsageSum[] {
    const { account, keyId } = origin;
    const scopes: UsageScope[] = [{ kind: "account", id: account }];
    if (keyId !== null) scopes.push({ kind: "key", id: keyId });
    const periods = [periodAt("day", atMs), periodAt("month", atMs)];
    return [
      rowOf(this.#hours, origin, Math.floor(atMs / hourMs) * hourMs).sum,
      rowOf(this.#days, origin, Math.floor(atMs / dayMs) * dayMs).sum,
      ...scopes.flatMap((scope) => periods.map((period) => this.#periodSum(account, scope, period))),
    ];
  }

  #periodSum(account: string, scope: UsageScope, period: Period): UsageSum {
    const key = periodKey(account, scope, period);
    const known = this.#periods.get(key);
    if (known !== undefined) return known.sum;
    const sum = new UsageSum();
    this.#periods.set(key, { endMs: period.endMs, sum });
    dropOldest(this.#periods, rowsMax);
    return sum;
  }
}

function inner<K, L, V>(outer: Map<K, Map<L, V>>, key: K): Map<L, V> {
  const known = outer.get(key) ?? new Map<L, V>();
  outer.set(key, known);
  return known;
}

function rowOf(rows: Map<string, Row>, { account, keyId, model }: UsageOrigin, startMs: number): Row {
  const key = `${startMs}\n${originKey({ account, keyId, model })}`;
  const known = rows.get(key);
  if (known !== undefined) return known;
  const row = { account, startMs, keyId, model, sum: new UsageSum() };
  rows.set(key, row);
  dropOldest(rows, rowsMax);
  return row;
}

/** No account, no key id and no model id holds a line break. */
function originKey({ account, keyId, model }: UsageOrigin): string {
  return `${account}\n${keyId ?? ""}\n${model}`;
}

function periodKey(account: string, { kind, id }: UsageScope, period: Period): string {
  return `${account}\n${kind}\n${id}\n${period.kind}\n${period.startMs}`;
}

function byPlace(a: Row, b: Row): number {
  return a.startMs - b.startMs || compare(a.keyId ?? "", b.keyId ?? "") || compare(a.model, b.model);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
