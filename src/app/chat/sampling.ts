/** Sampling settings of a request, from `/set` or options of `uis run`. For an absent one the model's default applies. */
export interface Sampling {
  readonly temperature?: number;
  readonly topP?: number;
  readonly maxTokens?: number;
  readonly seed?: number;
}

type SamplingField = keyof Sampling;

interface Setting {
  readonly field: SamplingField;
  /** Name of the setting in the REST API and in `/set`. */
  readonly name: string;
  readonly meaning: string;
  readonly min: number;
  readonly max: number;
  readonly isWhole: boolean;
}

/** The settings with the bounds of the API. The largest seed is the largest exact integer of JavaScript. */
export const samplingSettings: readonly Setting[] = [
  { field: "temperature", name: "temperature", meaning: "randomness", min: 0, max: 2, isWhole: false },
  { field: "topP", name: "top_p", meaning: "share of probability that is kept", min: 0, max: 1, isWhole: false },
  {
    field: "maxTokens",
    name: "max_tokens",
    meaning: "longest answer in tokens",
    min: 1,
    max: 2 ** 31 - 1,
    isWhole: true,
  },
  {
    field: "seed",
    name: "seed",
    meaning: "for repeatable answers",
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    isWhole: true,
  },
];

/** Parses a value of the setting. Returns an error sentence if the text is not a valid value. */
export function parseSetting({ name, min, max, isWhole }: Setting, text: string): number | string {
  const form = isWhole ? /^\d{1,16}$/ : /^\d{1,3}(\.\d{1,15})?$|^\.\d{1,15}$/;
  const value = form.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  return `${name} must be a ${isWhole ? "whole number" : "number"} between ${min} and ${max}, not ${text}`;
}

/** Fields of a REST request. */
export function restFields(sampling: Sampling): Record<string, number> {
  return Object.fromEntries(
    samplingSettings.flatMap(({ field, name }) => {
      const value = sampling[field];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** Fields of an RPC's parameters. */
export function rpcFields({ temperature, topP, maxTokens, seed }: Sampling) {
  return {
    ...(temperature !== undefined && { temperature }),
    ...(topP !== undefined && { topP }),
    ...(maxTokens !== undefined && { maxTokens }),
    ...(seed !== undefined && { seed: BigInt(seed) }),
  };
}
