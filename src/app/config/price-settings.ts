import * as z from "zod";
import type { PriceList } from "../../domain/catalog/prices.js";
import { wholeNumber } from "./setting-types.js";

/** Ten dollars per thousand tokens: the cost of the longest context remains an exact integer. */
const priceMax = 10_000_000;

const price = wholeNumber(0, priceMax);

const prices = {
  input: price.prefault(0).describe("Per token of the prompt."),
  cached_input: price.optional().describe("Per cached token of the prompt. Default: as input."),
  output: price.prefault(0).describe("Per generated token."),
};

const from = z.codec(
  z.iso.datetime({ offset: true, error: "must be a time such as 2026-01-01T00:00:00Z" }),
  z.number(),
  {
    decode: (text) => Date.parse(text),
    encode: (ms) => new Date(ms).toISOString(),
  },
);

const fixedPrices = z.strictObject(prices);
const pricesByTime = z
  .array(z.strictObject({ from, ...prices }))
  .min(1)
  .max(100);
const error = "must be input, cached_input and output in nano-dollars per token, or a list of them with `from`";

/** `prices:` of a model: fixed prices, or a list of prices from a time on. */
export const priceSettings = z
  .union([fixedPrices, pricesByTime], { error })
  .describe(
    "Nano-dollars per token: input, cached_input (default: as input) and output; whole numbers, default 0. Or a list of " +
      "these, each with the time `from` which it is valid.",
  );

/** `prices:` of a deployment. Empty: those of the model. */
export const deploymentPriceSettings = z
  .union([z.strictObject({}), fixedPrices, pricesByTime], { error })
  .describe("Prices of requests that this deployment answers, as `prices` of the model. Empty: those of the model.");

type PriceSettings = z.output<typeof priceSettings>;

/** Rising by time; empty: it costs nothing. */
export function toPriceList(settings: PriceSettings): PriceList {
  const entries = Array.isArray(settings) ? settings : [{ from: 0, ...settings }];
  return entries
    .map(({ from, input, cached_input, output }) => ({
      fromMs: from,
      input,
      cachedInput: cached_input ?? input,
      output,
    }))
    .filter((entry, _, all) => all.length > 1 || entry.input + entry.cachedInput + entry.output > 0)
    .sort((a, b) => a.fromMs - b.fromMs);
}

/** Null: the prices of the model. */
export function toDeploymentPrices(settings: z.output<typeof deploymentPriceSettings>): PriceList | null {
  return Array.isArray(settings) || "input" in settings ? toPriceList(settings as PriceSettings) : null;
}
