import { inferenceNames } from "../../../contract/operations.js";
import type { LimitOwner } from "../../../domain/call/rate-limits.js";
import {
  type PeriodKind,
  periodAt,
  type Threshold,
  thresholdEvent,
  type UsageScope,
  valuesOf,
} from "../../../domain/events/events.js";
import type { Settled, Settlement } from "../../../domain/metering/ledger.js";
import { BoundedMap } from "../../../lib/collections.js";
import { keySpace, type ShardKeys } from "../connection/key-space.js";
import { hourOf } from "../connection/scripts.js";
import { encodeOwners, letterOfMetric } from "./admissions.js";
import { KeyList } from "./batches.js";

/** One settlement in a call of `settle.lua`. */
export interface SettleItem {
  readonly settlement: Settlement;
  /** Owners of the limits and budgets that its admission charged, if known, in addition to its account, key and model. */
  readonly owners: readonly LimitOwner[];
  /**
   * Which texts of events the call includes: of the settlement itself, and of its thresholds. Few settlements have a
   * receiver, nearly none reaches a threshold, and the texts are expensive, so they are left out until the store requests
   * them.
   */
  readonly withEvents: "all" | "own" | "none";
}

/** Keys, lines and items of one call of `settle.lua`. Requests that end now count in the hour of `nowMs`. */
export function encodeSettlements(
  shard: ShardKeys,
  lines: LedgerLines,
  items: readonly SettleItem[],
  nowMs: number,
): { readonly keys: readonly string[]; readonly lines: string; readonly items: string } {
  const keys = new KeyList([
    shard.format,
    shard.live,
    shard.leases,
    shard.accounts,
    ...items.map(({ settlement }) => shard.ended(settlement.requestId)),
  ]);
  const encodedLines: (readonly unknown[])[] = [];
  const calledLines = new Map<string, CalledLine>();
  const encodedItems = items.map((item) => {
    const atMs = item.settlement.endedAtMs ?? nowMs;
    const line = lines.of(item.settlement, hourOf(atMs));
    let called = calledLines.get(line.id);
    if (called === undefined) {
      const thresholds = new ThresholdLists(line, keys);
      called = { line, thresholds, index: encodedLines.push([...line.encode(keys), thresholds.lists]) };
      calledLines.set(line.id, called);
    }
    return encodeItem(shard, item, called, keys, atMs);
  });
  return { keys: keys.names, lines: JSON.stringify(encodedLines), items: JSON.stringify(encodedItems) };
}

/** A line (account, key, model, operation and hour) in one call. */
interface CalledLine {
  readonly line: LedgerLine;
  /** Index among the lines of the call, from 1 as in Lua. */
  readonly index: number;
  readonly thresholds: ThresholdLists;
}

/** The lists of thresholds of a line in one call. Settlements with the same list refer to it by its index. */
class ThresholdLists {
  readonly lists: unknown[] = [];
  readonly #line: LedgerLine;
  readonly #keys: KeyList;
  readonly #indexes = new Map<Settlement["thresholds"], number>();

  constructor(line: LedgerLine, keys: KeyList) {
    this.#line = line;
    this.#keys = keys;
  }

  /**
   * Index of the list, from 1; 0: there are no thresholds. If `eventsAtMs` is not null, the list has the texts of its
   * events and is not shared.
   */
  indexOf(thresholds: Settlement["thresholds"], eventsAtMs: number | null): number {
    if (thresholds.length === 0) return 0;
    const known = eventsAtMs === null ? this.#indexes.get(thresholds) : undefined;
    if (known !== undefined) return known;
    const index = this.lists.push(thresholds.flatMap((threshold) => this.#encode(threshold, eventsAtMs)));
    if (eventsAtMs === null) this.#indexes.set(thresholds, index);
    return index;
  }

  #encode(threshold: Threshold, eventsAtMs: number | null) {
    const sums = this.#line.sums(threshold.apiKeyId === null ? "account" : "key", threshold.period);
    if (sums === null) return [];
    const events = eventsAtMs === null ? 0 : eventsOf(threshold, eventsAtMs);
    const sumsIndex = this.#keys.indexOf(sums);
    return [[threshold.id, letterOfMetric[threshold.metric], sumsIndex, valueTextsOf(threshold), events]];
  }
}

function encodeItem(
  shard: ShardKeys,
  { settlement, owners, withEvents }: SettleItem,
  { line, index, thresholds }: CalledLine,
  keys: KeyList,
  atMs: number,
) {
  const { event } = settlement;
  const further = owners.filter((owner) => !line.owns(owner));
  return [
    settlement.requestId,
    index,
    settlement.promptTokens,
    settlement.completionTokens,
    settlement.cachedTokens,
    settlement.costNano,
    settlement.degraded ? 1 : 0,
    event === null ? 0 : withEvents === "none" ? event.type : [event.id, event.type, event.body],
    thresholds.indexOf(settlement.thresholds, withEvents === "all" ? atMs : null),
    further.length === 0 ? 0 : encodeOwners(shard, keys, settlement.account, further),
  ];
}

const valueTexts = new WeakMap<Threshold, readonly string[]>();

function valueTextsOf(threshold: Threshold): readonly string[] {
  const known = valueTexts.get(threshold);
  if (known !== undefined) return known;
  const texts = valuesOf(threshold).map(({ value }) => value.toString());
  valueTexts.set(threshold, texts);
  return texts;
}

function eventsOf(threshold: Threshold, atMs: number) {
  const period = periodAt(threshold.period, atMs);
  return valuesOf(threshold).map((value) => {
    const { id, type, prefix, suffix } = thresholdEvent(threshold, value, period, atMs);
    return [id, type, prefix, suffix];
  });
}

const settledOnce: Settled = Object.freeze({ duplicate: false, crossed: Object.freeze([]) });

/**
 * Answer to one settlement. A string means that it is not settled yet: send it again with the texts of its events
 * (`wants_events`) or unchanged (`again`).
 */
export type SettleAnswer = Settled | "wants_events" | "again";

/** Decodes the answer of `settle.lua` to a settlement. */
export function decodeSettled(answer: unknown): SettleAnswer {
  const [what, ...crossed] = answer as readonly string[];
  if (what === "wants_events" || what === "again") return what;
  if (what === "settled" && crossed.length === 0) return settledOnce;
  return { duplicate: what === "duplicate", crossed };
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** How long hourly usage is kept (USE-15), and how long sums of periods are kept after their end. */
export const hoursKeptMs = 90 * dayMs;
export const daysKeptMs = 731 * dayMs;
export const sumsKeptMs = 60 * dayMs;

/** Maximum number of cached lines. Each request of a busy key uses the same line. */
const linesMax = 20_000;

interface Sums {
  readonly name: string;
  readonly expiresAtMs: number;
}

/** Account, key, model, operation and hour of usage: settlements of one line use the same keys. */
export interface LedgerLine {
  readonly id: string;
  /** Sums of a period of the account, or of the key; null: there is no key. */
  sums(whose: "account" | "key", period: PeriodKind): string | null;
  /** Whether the owner is the account, the key or the model of the line. */
  owns(owner: LimitOwner): boolean;
  /** A line of `settle.lua`. */
  encode(keys: KeyList): readonly unknown[];
}

export class LedgerLines {
  readonly #lines = new BoundedMap<string, LedgerLine>(linesMax);

  of(settlement: Settlement, hour: number): LedgerLine {
    const { account, keyId, model, operation } = settlement;
    const id = `${hour} ${account} ${keyId ?? ""} ${model} ${operation}`;
    const known = this.#lines.get(id);
    if (known !== undefined) return known;
    const line = createLine(settlement, hour, id);
    this.#lines.set(id, line);
    return line;
  }
}

function createLine(settlement: Settlement, hour: number, id: string): LedgerLine {
  const { account, keyId, model, operation } = settlement;
  const shard = keySpace.shardOf(account);
  const key: UsageScope | null = keyId === null ? null : { kind: "key", id: keyId };
  const startMs = hour * hourMs;
  const day = periodAt("day", startMs);
  const month = periodAt("month", startMs);

  const owners: readonly LimitOwner[] = [
    ...(key === null ? [] : [key]),
    { kind: "account", id: account },
    { kind: "model", id: model },
  ];
  const rows: readonly Sums[] = [
    { name: shard.usageRows(account, "hour", startMs), expiresAtMs: startMs + hourMs + hoursKeptMs },
    { name: shard.usageRows(account, "day", day.startMs), expiresAtMs: day.endMs + daysKeptMs },
  ];
  const sumsOf = (scope: UsageScope) => ({
    day: { name: shard.sums(account, scope, day), expiresAtMs: day.endMs + sumsKeptMs },
    month: { name: shard.sums(account, scope, month), expiresAtMs: month.endMs + sumsKeptMs },
  });
  const rowField = `${keyId ?? ""}|${model}|`;
  const sums = { account: sumsOf({ kind: "account", id: account }), key: key && sumsOf(key) };
  const allSums: readonly Sums[] = [sums.account, sums.key].flatMap((each) => (each ? [each.day, each.month] : []));

  return {
    id,
    sums: (whose, period) => sums[whose]?.[period].name ?? null,
    owns: (owner) => owners.some(({ kind, id }) => kind === owner.kind && id === owner.id),
    encode(keys) {
      const placed = ({ name, expiresAtMs }: Sums) => [keys.indexOf(name), expiresAtMs];
      return [
        account,
        rowField,
        day.startMs,
        encodeOwners(shard, keys, account, owners),
        rows.map(placed),
        allSums.map(placed),
        keys.indexOf(shard.endpoints(account)),
        `${rowField}${inferenceNames.get(operation) ?? ""}.`,
      ];
    },
  };
}
