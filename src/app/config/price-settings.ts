import * as z from "zod";
import { wholeNumber } from "./setting-types.js";

/** Ten dollars for a thousand tokens: with the longest context the cost of a request stays an exact integer. */
const priceMax = 10_000_000;

const price = wholeNumber(0, priceMax);

const prices = {
  input: price.prefault(0).describe("Per token of the prompt."),
  cached_input: price.optional().describe("Per token of the prompt that was read before. Default: as input."),
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

/** `prices:` of a model: what holds always, or a list of what holds from a time on. */
export const priceSettings = z
  .union(
    [
      z.strictObject(prices),
      z
        .array(z.strictObject({ from, ...prices }))
        .min(1)
        .max(100),
    ],
    {
      error: "must be input, cached_input and output in nano-dollars per token, or a list of them with `from`",
    },
  )
  .describe(
    "Nano-dollars per token: input, cached_input (default: as input) and output; whole numbers, default 0. Or a list of " +
      "these, each with `from`, the time since which it holds.",
  );
