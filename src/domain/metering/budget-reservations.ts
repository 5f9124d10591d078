import { type Metric, periodAt } from "../events/events.js";
import type { Budget, BudgetRefusal, Charge } from "./ledger.js";

/** Reservations of running requests of one account or key. */
interface Reserved extends Record<Metric, bigint> {
  readonly name: string;
}

/** Reservations of one request, for `release`. */
export type BudgetHold = readonly Reserved[];

const nothingHeld: BudgetHold = [];

/** Reservations of running requests against budgets (USE-7). A reservation counts against the budgets of every period. */
export class BudgetReservations {
  readonly #byScope = new Map<string, Reserved>();

  /** The exhausted budget that resets last; null if none. `usedOf`: settled usage of the period around `wallMs`. */
  refusalOf(
    budgets: readonly Budget[],
    reserve: Charge,
    usedOf: (budget: Budget) => bigint,
    wallMs: number,
  ): BudgetRefusal | null {
    const amounts = amountsOf(reserve);
    let worst: BudgetRefusal | null = null;
    for (const budget of budgets) {
      const { id: thresholdId, metric, limit } = budget;
      const requested = amounts[metric];
      const used = usedOf(budget) + (this.#byScope.get(nameOf(budget))?.[metric] ?? 0n);
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

  #of(budget: Budget): Reserved {
    const name = nameOf(budget);
    const known = this.#byScope.get(name);
    if (known !== undefined) return known;
    const reserved: Reserved = { name, requests: 0n, tokens: 0n, cost: 0n };
    this.#byScope.set(name, reserved);
    return reserved;
  }
}

function nameOf({ scope }: Budget): string {
  return `${scope.kind}\n${scope.id}`;
}

function amountsOf({ tokens, costNano }: Charge): Readonly<Record<Metric, bigint>> {
  return { requests: 1n, tokens: BigInt(tokens), cost: BigInt(costNano) };
}

function add(reserved: Reserved, charge: Charge, sign: 1n | -1n): void {
  const amounts = amountsOf(charge);
  reserved.requests += sign * amounts.requests;
  reserved.tokens += sign * amounts.tokens;
  reserved.cost += sign * amounts.cost;
}
