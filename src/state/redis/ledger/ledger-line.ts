import type { LimitOwner } from "../../../domain/call/rate-limits.js";
import { type PeriodKind, periodAt, type UsageScope } from "../../../domain/events/threshold.js";
import type { Settlement } from "../../../domain/metering/ledger.js";
import { BoundedMap } from "../../../lib/bounded-map.js";
import type { KeySpace, ShardKeys } from "../key-space.js";
import { nameOfOwner } from "./admissions.js";
import type { KeyList } from "./key-list.js";
import { startOfHour } from "./store-hour.js";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** How long usage is kept (USE-15), and sums of periods after their end. */
export const hoursKeptMs = 90 * dayMs;
export const daysKeptMs = 731 * dayMs;
export const sumsKeptMs = 60 * dayMs;

/** Lines in memory: those of busy keys are there again with each request. */
const linesMax = 20_000;

interface Sums {
  readonly name: string;
  readonly expiresAtMs: number;
}

/** Whose usage it is, and of which hour: settlements that agree in this touch the same keys. */
export interface LedgerLine {
  readonly id: string;
  /** Sums of a period of the account, or of the key; null: there is no key. */
  sums(whose: "account" | "key", period: PeriodKind): string | null;
  /** Whether this is the account, the key or the model of the line. */
  owns(owner: LimitOwner): boolean;
  /** A line of `settle.lua`. */
  encode(keys: KeyList): readonly unknown[];
}

export class LedgerLines {
  readonly #space: KeySpace;
  readonly #lines = new BoundedMap<string, LedgerLine>(linesMax);

  constructor(space: KeySpace) {
    this.#space = space;
  }

  of(settlement: Settlement, hour: number): LedgerLine {
    const { account, keyId, model } = settlement;
    const id = `${hour} ${account} ${keyId ?? ""} ${model}`;
    const known = this.#lines.get(id);
    if (known !== undefined) return known;
    const line = createLine(this.#space, settlement, hour, id);
    this.#lines.set(id, line);
    return line;
  }
}

function createLine(space: KeySpace, settlement: Settlement, hour: number, id: string): LedgerLine {
  const { account, keyId, model } = settlement;
  const shard = space.shardOf(account);
  const key: UsageScope | null = keyId === null ? null : { kind: "key", id: keyId };
  const startMs = startOfHour(hour);
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
  const sums = { account: sumsOf({ kind: "account", id: account }), key: key && sumsOf(key) };
  const allSums: readonly Sums[] = [sums.account, sums.key].flatMap((each) => (each ? [each.day, each.month] : []));

  return {
    id,
    sums: (whose, period) => sums[whose]?.[period].name ?? null,
    owns: (owner) => owners.some(({ kind, id }) => kind === owner.kind && id === owner.id),
    encode(keys) {
      const placed = ({ name, expiresAtMs }: Sums) => [keys.placeOf(name), expiresAtMs];
      return [
        account,
        `${keyId ?? ""}|${model}|`,
        day.startMs,
        encodeOwners(shard, keys, account, owners),
        rows.map(placed),
        allSums.map(placed),
        keys.placeOf(shard.endpoints(account)),
      ];
    },
  };
}

/** Where the windows, running requests and reservations of owners are. A model has no budget. */
export function encodeOwners(shard: ShardKeys, keys: KeyList, account: string, owners: readonly LimitOwner[]) {
  return Object.fromEntries(
    owners.map((owner) => [
      nameOfOwner(owner),
      [
        keys.placeOf(shard.window(account, owner)),
        keys.placeOf(shard.running(account, owner)),
        owner.kind === "model" ? 0 : keys.placeOf(shard.reserved(account, { kind: owner.kind, id: owner.id })),
      ],
    ]),
  );
}
