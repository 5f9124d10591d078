import type { UsageTotal } from "../call/live-requests.js";

/** Nano-dollars per token: 1,000 are a dollar for a million tokens. Integers, 0 or more (USE-8). */
export interface Prices {
  readonly input: number;
  /** Price of cached prompt tokens. */
  readonly cachedInput: number;
  readonly output: number;
}

/** Prices of a model from a point in time. */
export interface PricesFrom extends Prices {
  /** Wall-clock milliseconds; 0: from the beginning. */
  readonly fromMs: number;
}

/** Prices in ascending order of their start; an empty list means free of charge. */
export type PriceList = readonly PricesFrom[];

const free: Prices = Object.freeze({ input: 0, cachedInput: 0, output: 0 });

/** Prices at a point in time. */
export function pricesAt(list: PriceList, atMs: number): Prices {
  return list.findLast(({ fromMs }) => fromMs <= atMs) ?? free;
}

/**
 * Cost of a request in nano-dollars, fixed when it is settled. A safe integer: prices are bounded by the configuration so
 * that the largest context stays below 2^53.
 */
export function costNano(
  prices: Prices,
  usage: Pick<UsageTotal, "promptTokens" | "cachedTokens" | "completionTokens">,
): number {
  const cached = Math.min(usage.cachedTokens, usage.promptTokens);
  return (
    (usage.promptTokens - cached) * prices.input + cached * prices.cachedInput + usage.completionTokens * prices.output
  );
}
