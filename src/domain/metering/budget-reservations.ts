import { type Metric, periodAt } from "../events/threshold.js";
import type { Budget, BudgetRefusal, Charge } from "./ledger.js";

/** Reservations of running requests of one account or key. */
interface Reserved {
  readonly name: string;
  requests: bigint;
  tokens: bigint;
  costNano: bigint;
}

/** Reservations of one request, for `release`. */
export type BudgetHold = readonly Reserved[];

const nothingHeld: BudgetHold = [];

/** Reservations of running requests against budgets (USE-7), whatever period a budget has. */
export class BudgetReservations {
  readonly #byScope = new Map<string, Reserved>();

  /**
   * Null when every budget has room, otherwise the exhausted budget that resets last. `usedOf` returns the settled
   * usage of the period that contains `wallMs`.
   */
  refusalOf(
    budgets: readonly Budget[],
    reserve: Charge,
    usedOf: (budget: Budget) => bigint,
    wallMs: number,
  ): BudgetRefusal | null {
    let worst: BudgetRefusal | null = null;
    for (const budget of budgets) {
      const { id: thresholdId, metric, limit } = budget;
      const requested = amountOf(metric, reserve);
      const used = usedOf(budget) + this.#reserved(budget);
      if (used + requested <= limit) continue;
      const resetsAtMs = periodAt(budget.period, wallMs).endMs;
      if (worst !== null && worst.resetsAtMs >= resetsAtMs) continue;
      worst = { which: "budget", thresholdId, metric, limit, used, requested, resetsAtMs };
    }
    return worst;
  }

  /** Reserves once per account or key of the budgets. */
  hold(budgets: readonly Budget[], reserve: Charge): BudgetHold {
    if (budgets.length === 0) return nothingHeld;
    const held = new Set(budgets.map((budget) => this.#of(budget)));
    for (const reserved of held) add(reserved, reserve, 1n);
    return [...held];
  }

  release(held: BudgetHold, reserve: Charge): void {
    for (const reserved of held) {
      add(reserved, reserve, -1n);
      if (reserved.requests === 0n) this.#byScope.delete(reserved.name);
    }
  }

  #reserved(budget: Budget): bigint {
    const reserved = this.#byScope.get(nameOf(budget));
    if (reserved === undefined) return 0n;
    return budget.metric === "cost" ? reserved.costNano : reserved[budget.metric];
  }

  #of(budget: Budget): Reserved {
    const name = nameOf(budget);
    const known = this.#byScope.get(name);
    if (known !== undefined) return known;
    const reserved: Reserved = { name, requests: 0n, tokens: 0n, costNano: 0n };
    this.#byScope.set(name, reserved);
    return reserved;
  }
}

function nameOf({ scope }: Budget): string {
  return `${scope.kind}\n${scope.id}`;
}

function amountOf(metric: Metric, { tokens, costNano }: Charge): bigint {
  switch (metric) {
    case "requests":
      return 1n;
    case "tokens":
      return BigInt(tokens);
    case "cost":
      return BigInt(costNano);
  }
}

function add(reserved: Reserved, { tokens, costNano }: Charge, sign: 1n | -1n): void {
  reserved.requests += sign;
  reserved.tokens += sign * BigInt(tokens);
  reserved.costNano += sign * BigInt(costNano);
}
