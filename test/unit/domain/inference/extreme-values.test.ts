import { describe, expect, it } from "vitest";
import { defaultLimits } from "../../../../src/contract/limits.js";
import { validateCompletion } from "../../../../src/domain/inference/completion.js";
import { validateEmbeddings } from "../../../../src/domain/inference/embed.js";
import { validateChatCompletion } from "../../../../src/domain/inference/validate-chat.js";
import { chat, completion, embedding, refusal } from "./params.js";

/**
 * Invalid values for every numeric field of a request. The messages are created in the process, because each protocol can
 * transport only some of these values: NaN and Infinity arrive over gRPC, fractions and 2^31 over JSON.
 */
const never = [-1e308, -(2 ** 31), -3, 2 ** 31, 1e308, Number.NaN, Infinity, -Infinity];
const neverIntegers = [...never, 1.5, 0.1];

const chatNumbers = [
  "temperature",
  "topP",
  "frequencyPenalty",
  "presencePenalty",
  "minP",
  "repetitionPenalty",
] as const;
const chatIntegers = ["n", "maxTokens", "maxCompletionTokens", "topLogprobs", "topK"] as const;
const completionIntegers = ["n", "maxTokens", "logprobs", "bestOf", "topK"] as const;
const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

interface Case {
  readonly name: string;
  readonly param: string;
  readonly validate: () => void;
}

function cases<Field extends string>(
  kind: string,
  fields: readonly Field[],
  values: readonly number[],
  validate: (changes: { [field in Field]?: number }) => void,
): Case[] {
  return fields.flatMap((field) =>
    values.map((value) => ({
      name: `${kind} ${snake(field)}: ${value}`,
      param: snake(field),
      validate: () => validate({ [field]: value } as { [field in Field]?: number }),
    })),
  );
}

const table: readonly Case[] = [
  ...cases("chat", chatNumbers, never, (changes) => validateChatCompletion({ ...chat(), ...changes }, defaultLimits)),
  ...cases("chat", chatIntegers, neverIntegers, (changes) =>
    validateChatCompletion({ ...chat({ logprobs: true }), ...changes }, defaultLimits),
  ),
  ...cases("completion", completionIntegers, neverIntegers, (changes) =>
    validateCompletion({ ...completion(), ...changes }, defaultLimits),
  ),
  ...cases("embedding", ["dimensions"], neverIntegers, (changes) =>
    validateEmbeddings({ ...embedding(), ...changes }, defaultLimits),
  ),
];

describe("extreme values", () => {
  it("the table has at least 120 cases", () => {
    expect(table.length).toBeGreaterThanOrEqual(120);
  });

  it.each(table)("are rejected with the name of the field: $name (SEC-8)", ({ validate, param }) => {
    const error = refusal(validate);
    expect(error?.param).toBe(param);
    expect(error?.message).not.toMatch(/rate.?limit|maximum context length/i);
  });
});
