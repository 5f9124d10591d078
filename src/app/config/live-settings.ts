import * as z from "zod";
import { defaultLimits, fixedLimits } from "../../contract/limits.js";
import type { PriceList } from "../../domain/catalog/prices.js";
import type { RequestDefaults } from "../../domain/engine/engine.js";
import type { UpstreamKind } from "../../domain/engine/upstream.js";
import { upstreamTakes } from "../engines/registry.js";
import { wholeNumber } from "./setting-types.js";

/** Ten dollars per thousand tokens. With this maximum the cost of the longest context is still an exact integer. */
const priceMax = 10_000_000;

const price = wholeNumber(0, priceMax);

const prices = {
  input: price.prefault(0).describe("Per token of the prompt."),
  cached_input: price.optional().describe("Per cached token of the prompt. Default: the price of `input`."),
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
    "Nano-dollars per token: input, cached_input (default: the price of input) and output; whole numbers, default 0. " +
      "Or a list of these, each with `from`, the time at which it becomes valid.",
  );

/** `prices:` of a deployment. Empty: the prices of the model apply. */
export const deploymentPriceSettings = z
  .union([z.strictObject({}), fixedPrices, pricesByTime], { error })
  .describe(
    "Prices of requests that this deployment answers, in the form of the model's `prices`. Empty: the model's prices " +
      "apply.",
  );

type PriceSettings = z.output<typeof priceSettings>;

/** Prices in the order of their start times; empty: the model costs nothing. */
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

/** The prices of a deployment; null: the prices of the model apply. */
export function toDeploymentPrices(settings: z.output<typeof deploymentPriceSettings>): PriceList | null {
  return Array.isArray(settings) || "input" in settings ? toPriceList(settings as PriceSettings) : null;
}

const systemCharsMax = 65_536;

function number(max: number) {
  const error = `must be a number from 0 to ${max}`;
  return z.number({ error }).min(0, { error }).max(max, { error });
}

const stopText = z
  .string({ error: "must be text" })
  .min(1, { error: "must not be empty" })
  .max(defaultLimits.stopCharsMax, { error: `must have at most ${defaultLimits.stopCharsMax} characters` });

const stopError = `must be a text or a list of at most ${defaultLimits.stopMax} texts`;

/** `defaults:` of a model. */
export const defaultSettings = z
  .strictObject({
    temperature: number(2).nullable().prefault(null).describe("0 to 2."),
    top_p: number(1).nullable().prefault(null).describe("0 to 1."),
    min_p: number(1).nullable().prefault(null).describe("0 to 1."),
    repetition_penalty: number(2)
      .refine((value) => value > 0, { error: "must be above 0" })
      .nullable()
      .prefault(null)
      .describe("Above 0, at most 2."),
    max_tokens: wholeNumber(1, fixedLimits.int32Max)
      .nullable()
      .prefault(null)
      .describe("Maximum generated tokens of a request that sets neither max_tokens nor max_completion_tokens."),
    stop: z
      .union([stopText, z.array(stopText).max(defaultLimits.stopMax)], { error: stopError })
      .nullable()
      .prefault(null)
      .describe(`A text that ends the answer, or a list of at most ${defaultLimits.stopMax} such texts.`),
    system: z
      .string({ error: "must be text" })
      .min(1, { error: "must not be empty" })
      .max(systemCharsMax, { error: `must have at most ${systemCharsMax} characters` })
      .nullable()
      .prefault(null)
      .describe("System message of chats without a system or developer message."),
  })
  .prefault({})
  .describe("Values for fields that a request for chat or a text completion leaves unset. Null: the engine's default.");

type DefaultSettings = z.output<typeof defaultSettings>;

/** The default options for requests; null if none is set. */
export function toRequestDefaults(settings: DefaultSettings): RequestDefaults | null {
  if (!hasDefaults(settings)) return null;
  const { temperature, top_p, min_p, repetition_penalty, max_tokens, stop, system } = settings;
  return {
    temperature,
    topP: top_p,
    minP: min_p,
    repetitionPenalty: repetition_penalty,
    maxTokens: max_tokens,
    stop: typeof stop === "string" ? [stop] : (stop ?? []),
    system,
  };
}

export function hasDefaults(settings: DefaultSettings): boolean {
  return Object.values(settings).some((value) => value !== null);
}

/** Names of the set defaults that servers of a kind have no field for, so that they would have no effect. */
export function defaultsWithoutEffect(settings: DefaultSettings, kind: UpstreamKind): readonly string[] {
  return (["min_p", "repetition_penalty"] as const).filter((name) => {
    return settings[name] !== null && !upstreamTakes(kind, name);
  });
}
