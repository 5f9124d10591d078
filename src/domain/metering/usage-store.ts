import { addUsageSums, type Period, type UsageScope, type UsageSums } from "../events/events.js";

/** Usage of one key, model and operation in one hour or day of UTC. */
export interface UsageRow extends UsageSums {
  readonly account: string;
  readonly startMs: number;
  /** Null: the administrator. */
  readonly keyId: string | null;
  readonly model: string;
  /** Null: recorded by a version that summed over operations. */
  readonly operation: string | null;
}

export interface UsageRange {
  readonly account: string;
  readonly width: "hour" | "day";
  /** Rows that begin in [fromMs, toMs); both are whole hours or days. */
  readonly fromMs: number;
  readonly toMs: number;
}

export type UsageGroup = "model" | "key" | "operation";

/** Sums of one bucket and group. */
export interface GroupedUsage extends UsageSums {
  readonly startMs: number;
  /** Null where it is summed over. */
  readonly model: string | null;
  /** Null where it is summed over, and for the administrator. */
  readonly keyId: string | null;
  /** Null where it is summed over, and for usage recorded by a version that summed over operations. */
  readonly operation: string | null;
}

/** A position in the rows of an account, after all operations of a start, key and model; the administrator's key is "". */
export interface UsageCursor {
  readonly startMs: number;
  readonly keyId: string;
  readonly model: string;
}

export interface UsageGroupsQuery extends UsageRange {
  readonly groupBy: readonly UsageGroup[];
  /** Rows up to and including this position are skipped; null: none. */
  readonly after: UsageCursor | null;
  /** Maximum number of groups. A page is not split within one position, and without grouping by key not within one bucket. */
  readonly groupsMax: number;
}

export interface UsageGroups {
  /** In the order of start, then of their first rows. */
  readonly groups: readonly GroupedUsage[];
  /** Where the next page starts; null at the end of the range. */
  readonly next: UsageCursor | null;
}

/** Reads sums of settlements, by hour for 90 days and by day for 2 years (USE-15). Rejects with `storage_unavailable`. */
export interface UsageReader {
  /** In the order of start, key and model. */
  rows(range: UsageRange): Promise<readonly UsageRow[]>;
  /** Sums by bucket and group, added up in small steps that never delay a settlement. Rejects when the signal aborts. */
  groups(query: UsageGroupsQuery, signal: AbortSignal): Promise<UsageGroups>;
  /** Accounts that have usage or keys, sorted by name; at most 10,000. */
  accounts(): Promise<readonly string[]>;
  /** Sums of a whole period so far, without reservations. */
  used(account: string, scope: UsageScope, period: Period): Promise<UsageSums>;
}

/** Sorts after every key and model: the position at the end of a key or bucket. */
export const lastName = "\u{10ffff}";

/** Adds up groups from partial sums in the order of the rows, and finds the end of a page. */
export class UsageGrouping {
  readonly #byKey: boolean;
  readonly #byModel: boolean;
  readonly #byOperation: boolean;
  readonly #groupsMax: number;
  readonly #groups = new Map<string, GroupedUsage>();

  constructor({ groupBy, groupsMax }: Pick<UsageGroupsQuery, "groupBy" | "groupsMax">) {
    this.#byKey = groupBy.includes("key");
    this.#byModel = groupBy.includes("model");
    this.#byOperation = groupBy.includes("operation");
    this.#groupsMax = groupsMax;
  }

  add(part: GroupedUsage): void {
    const keyId = this.#byKey ? part.keyId : null;
    const model = this.#byModel ? part.model : null;
    const operation = this.#byOperation ? part.operation : null;
    const name = `${part.startMs}\n${keyId ?? ""}\n${model ?? ""}\n${operation ?? ""}`;
    const known = this.#groups.get(name);
    const sums = known === undefined ? part : addUsageSums(known, part);
    const { requests, promptTokens, completionTokens, cachedTokens, costNano } = sums;
    const { startMs } = part;
    this.#groups.set(name, {
      startMs,
      keyId,
      model,
      operation,
      requests,
      promptTokens,
      completionTokens,
      cachedTokens,
      costNano,
    });
  }

  /** Returns the page if it is full; null while more rows fit. The buckets that begin before `startMs` must be complete. */
  page(startMs: number): UsageGroups | null {
    const groups = [...this.#groups.values()];
    if (this.#byKey) {
      // Groups arrive in the order of the rows, so all groups but those of the last position are complete.
      const end = groups[this.#groupsMax - 1];
      if (end === undefined) return null;
      const { startMs, keyId, model } = end;
      const after = groups.findIndex((group, i) => {
        return i >= this.#groupsMax && (group.startMs !== startMs || group.keyId !== keyId || group.model !== model);
      });
      if (after === -1) return null;
      const next = { startMs, keyId: keyId ?? "", model: this.#byModel ? (model ?? "") : lastName };
      return { groups: groups.slice(0, after), next };
    }
    const whole = groups.filter((group) => group.startMs < startMs);
    const end = whole[this.#groupsMax - 1];
    if (end === undefined) return null;
    const next = { startMs: end.startMs, keyId: lastName, model: lastName };
    return { groups: whole.filter((group) => group.startMs <= end.startMs), next };
  }

  /** Returns the groups that remain at the end of the range. */
  rest(): UsageGroups {
    const page = this.page(Number.POSITIVE_INFINITY);
    if (page !== null && page.groups.length < this.#groups.size) return page;
    return { groups: [...this.#groups.values()], next: null };
  }
}
