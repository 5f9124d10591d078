import type { UsageSums } from "../../domain/events/threshold.js";

/** What one settlement adds. Safe integers, 0 or more. */
export interface UsageDelta {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number;
  readonly costNano: number;
}

/** An integer that grows beyond 2^53 (USE-9), and costs no bigint until it does. */
class GrowingSum {
  #low = 0;
  #high = 0n;

  add(amount: number): void {
    const sum = this.#low + amount;
    if (sum <= Number.MAX_SAFE_INTEGER) {
      this.#low = sum;
      return;
    }
    this.#high += BigInt(this.#low) + BigInt(amount);
    this.#low = 0;
  }

  value(): bigint {
    return this.#high + BigInt(this.#low);
  }
}

/** Sums of the settled requests of one row or one period. */
export class UsageSum {
  readonly #requests = new GrowingSum();
  readonly #promptTokens = new GrowingSum();
  readonly #completionTokens = new GrowingSum();
  readonly #cachedTokens = new GrowingSum();
  readonly #costNano = new GrowingSum();

  /** One request. */
  add({ promptTokens, completionTokens, cachedTokens, costNano }: UsageDelta): void {
    this.#requests.add(1);
    this.#promptTokens.add(promptTokens);
    this.#completionTokens.add(completionTokens);
    this.#cachedTokens.add(cachedTokens);
    this.#costNano.add(costNano);
  }

  read(): UsageSums {
    return {
      requests: this.#requests.value(),
      promptTokens: this.#promptTokens.value(),
      completionTokens: this.#completionTokens.value(),
      cachedTokens: this.#cachedTokens.value(),
      costNano: this.#costNano.value(),
    };
  }
}
