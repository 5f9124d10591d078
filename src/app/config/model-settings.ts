import * as z from "zod";
import { modelIdForm, modelIdWords } from "../../contract/names.js";
import { modelCapabilities } from "../../domain/catalog/catalog-model.js";
import { affinities, deploymentAbilities, deploymentOperations } from "../../domain/engine/upstream.js";
import { deploymentBounds } from "../../domain/engine/upstream-forms.js";
import { engineKinds, engineNames } from "../engines/registry.js";
import { defaultSettings, deploymentPriceSettings, hasDefaults, priceSettings } from "./live-settings.js";
import { duration, oneOf, text, trueOrFalse, wholeNumber } from "./setting-types.js";

const modelId = z
  .string({ error: "must be text" })
  .regex(modelIdForm, { error: `must be ${modelIdWords}` })
  .describe(`Model name in requests. ${modelIdWords}; unique.`);

const engine = oneOf(engineNames).describe(
  "`llama` is the embedded engine, `openai` uses an upstream server, `scripted` returns canned responses.",
);

const tokenCount = wholeNumber(0, 1_000_000_000);
const delay = wholeNumber(0, 3_600_000);

const toolCall = z.strictObject({
  name: text("the name of a tool").describe("Name of the called tool."),
  arguments: z
    .union([z.record(z.string(), z.json()), z.string()], { error: "must be an object, or JSON as text" })
    .optional()
    .describe("Arguments of the call: an object, or JSON as text. Default {}."),
});

/** `scripted:` of a model or deployment: output and failures of the scripted engine. */
const scriptedSettings = z
  .strictObject({
    text: z.string({ error: "must be text" }).describe("Generated text. Default: the last user message or the prompt."),
    tokens: tokenCount.describe("Number of tokens to which the text is repeated or cut."),
    first_token_delay_ms: delay.describe("Milliseconds before the first token. Default 0."),
    token_delay_ms: delay.describe("Milliseconds between tokens. Default 0."),
    tool_call: toolCall.describe(
      "Tool call that the answer contains, if the request offers the tool and does not end with a tool's result.",
    ),
    tool_calls: z.array(toolCall).describe("Several tool calls of one answer, instead of `tool_call`."),
    tool_rounds: z
      .array(z.array(toolCall))
      .describe(
        "Tool calls of the first, second and further answers of an agent's loop, instead of `tool_calls`. After the last " +
          "of them the answer is the text.",
      ),
    finish_reason: oneOf(["content_filter"]).describe("Finish reason of the answer. Default: stop."),
    fail: z
      .strictObject({
        after_tokens: tokenCount
          .describe("Number of tokens after which a call fails. 0, the default: before the first token.")
          .optional(),
        code: oneOf([
          "internal_error",
          "upstream_error",
          "server_is_overloaded",
          "upstream_timeout",
          "context_length_exceeded",
        ]),
        times: wholeNumber(1, 1_000_000_000)
          .describe("Number of calls that fail, from the first on. Default: all.")
          .optional(),
      })
      .describe("A failure with which calls end."),
    hang_after_tokens: tokenCount.describe(
      "Number of tokens after which an answer hangs until the request is aborted.",
    ),
    dimensions: wholeNumber(1, 65_536).describe(
      "Length of the vectors. If it is set, the model is an embedding model.",
    ),
    context_length: wholeNumber(1, 100_000_000).describe("Maximum tokens of prompt and answer together. Default 4096."),
    rerank: trueOrFalse.describe(
      "Whether it is a reranking model, which scores documents by the words that they share with the query. Default false.",
    ),
    token_input: trueOrFalse.describe("Whether prompts and inputs may be token ids. Default false."),
  })
  .partial()
  .describe("Output and failures of the scripted engine.")
  .check(({ value: options, issues }) => {
    if (options.tool_call !== undefined && options.tool_calls !== undefined) {
      const message = "excludes tool_call: set one of them";
      issues.push({ code: "custom", input: options, path: ["tool_calls"], message });
    }
    if (options.tool_rounds !== undefined && (options.tool_call ?? options.tool_calls) !== undefined) {
      const message = "excludes tool_call and tool_calls: set one of them";
      issues.push({ code: "custom", input: options, path: ["tool_rounds"], message });
    }
  });

/** Request fields that only the service may set, because they decide where and how a request runs. */
const ownFields = ["model", "messages", "prompt", "input", "stream", "stream_options", "n"];

const passedField = z
  .string({ error: "must be the name of a request field" })
  .regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/, { error: "must be the name of a request field" })
  .refine((name) => !ownFields.includes(name), { error: "is a field that the service sets itself: remove it" });

/** Maximum number of slots, of any engine. */
const slotsMax = 65_536;

/** Settings of a deployment that a model with one deployment has itself. */
const deploymentSettings = {
  scripted: scriptedSettings.optional(),
  context_length: wholeNumber(1, 100_000_000)
    .nullish()
    .describe(
      "Maximum tokens of prompt and answer together, 1 to 100000000. Default 4096, or the model's trained context if " +
        "that is less; engine openai: the value that the upstream reports.",
    ),
  slots: wholeNumber(1, slotsMax)
    .describe("Maximum concurrent requests. Default 64; engine llama: 4, at most 256; engine openai: 256.")
    .optional(),
  queue_max: wholeNumber(0, 512)
    .describe("Maximum requests that wait for a slot. Default 4 x slots, at most 512.")
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
  upstream: text("the name of an upstream").nullish().describe("Engine openai: name of an entry of `upstreams`."),
  model: z
    .string({ error: "must be text" })
    .regex(/^[\x21-\x7e]([\x20-\x7e]{0,254}[\x21-\x7e])?$/, { error: "must be 1 to 256 printable ASCII characters" })
    .nullish()
    .describe("Engine openai: name of the model at the upstream. Default: the id of the model."),
  pass_through: z
    .array(passedField, { error: "must be a list of names of request fields" })
    .max(64, { error: "must have at most 64 names" })
    .optional()
    .describe(
      "Engine openai: names of further request fields that are forwarded to the upstream, such as guided_json. " +
        "Default: none.",
    ),
};

const capabilityNames = [...deploymentOperations, ...deploymentAbilities] as const;

/** Capabilities of a deployment, which replace the discovered ones. */
const deploymentCapabilities = z
  .array(oneOf(capabilityNames), { error: "must be a list of operations and abilities" })
  .nullish()
  .describe(
    `Engine openai: all operations (${deploymentOperations.join(", ")}) and abilities ` +
      `(${deploymentAbilities.join(", ")}) of the deployment. They replace the discovered ones.`,
  );

const deployment = z.strictObject({
  engine,
  ...deploymentSettings,
  id: z
    .string({ error: "must be text" })
    .regex(/^[\x21-\x7e]{1,320}$/, { error: "must be 1 to 320 printable ASCII characters without spaces" })
    .nullish()
    .describe(
      "Unique name in headers, metrics and logs. Default: `<upstream>/<model>`, without an upstream " +
        "`embedded/<model id>`. If that name is taken, `#2` is appended, then `#3`.",
    ),
  weight: wholeNumber(deploymentBounds.weight.min, deploymentBounds.weight.max)
    .prefault(1)
    .describe("Share of the model's requests, relative to its other deployments."),
  priority: wholeNumber(deploymentBounds.priority.min, deploymentBounds.priority.max)
    .prefault(0)
    .describe("Deployments with a higher number are used only while none with a lower number can answer."),
  prices: deploymentPriceSettings.prefault({}),
  capabilities: deploymentCapabilities,
});

export type DeploymentSettings = z.output<typeof deployment>;

/** Maximum number of fallbacks of a model. */
export const fallbacksMax = 16;

/** One entry of `models:`. */
export const modelSettings = z
  .strictObject({
    id: modelId,
    owned_by: text("the owning organisation").prefault("unified-inference").describe("Owning organisation."),
    capabilities: z
      .array(oneOf(modelCapabilities))
      .min(1)
      .optional()
      .describe("Operations that the model offers. Default: those that the engine reports."),
    engine: engine.optional(),
    ...deploymentSettings,
    deployments: z
      .array(deployment, { error: "must be a list of deployments" })
      .min(1, { error: "must have at least one deployment" })
      .optional()
      .describe(
        "Several deployments of the model, instead of one `engine`. Each entry has `engine`, the settings of that " +
          "engine, `id`, `weight`, `priority`, `prices` and `capabilities`.",
      ),
    affinity: oneOf(affinities)
      .nullish()
      .describe(
        "Which requests prefer the same deployment, for its prompt cache. `prefix`: those whose prompts begin in the " +
          "same way; `session`: those of the same session; `none`: no requests. Default: `prefix` if several deployments " +
          "are of kind vllm, sglang or llama-server, else `none`.",
      ),
    fallbacks: z
      .array(modelId, { error: "must be a list of model ids" })
      .max(fallbacksMax, { error: `must have at most ${fallbacksMax} models` })
      .prefault([])
      .describe(
        "Models that answer, in this order, when no deployment of this model can. Fallbacks of a fallback are not used.",
      ),
    keep_alive: duration(1_000, 2_592_000_000)
      .nullable()
      .prefault(null)
      .describe(
        "Engine llama: time without requests after which the model is unloaded; the next request loads it. Null: the " +
          "model stays loaded.",
      ),
    defaults: defaultSettings,
    prices: priceSettings.prefault({}),
  })
  .check(({ value: model, issues }) => {
    const report = (path: (string | number)[], message: string) =>
      issues.push({ code: "custom", input: model, path, message });
    const does = model.capabilities ?? [];
    const generates = does.includes("chat") || does.includes("completions");
    if (generates && (does.includes("embeddings") || does.includes("rerank"))) {
      report(["capabilities"], textOrInput);
    }
    if ((does.includes("embeddings") || does.includes("rerank")) && hasDefaults(model.defaults)) {
      report(["defaults"], "apply to generated text, which this model does not create: remove them");
    }
    if (model.fallbacks.includes(model.id)) {
      report(["fallbacks", model.fallbacks.indexOf(model.id)], "is the model itself: remove it");
    }
    reportDoubles(model.fallbacks, "fallbacks", report);
    for (const [path, entry] of entriesOf(model)) checkEntry(path, entry, report);
    const engines = model.deployments?.map(({ engine }) => engine) ?? [model.engine];
    if (model.keep_alive !== null && (engines.length !== 1 || engines[0] !== "llama")) {
      report(["keep_alive"], "is only valid for a model with one deployment, which has the engine llama");
    }
    if (model.deployments === undefined) {
      if (model.engine === undefined) report(["engine"], "is required: a model needs an engine or deployments");
      return;
    }
    for (const name of ["engine", ...Object.keys(deploymentSettings)] as (keyof typeof model)[]) {
      if (model[name] != null) report([name], "must be set in the entries of deployments, which this model has");
    }
  });

export type ModelSettings = z.output<typeof modelSettings>;

type Report = (path: (string | number)[], message: string) => void;

const textOrInput = "a model that creates text creates neither embeddings nor rankings: use one model for each";

/** A deployment, or a model that is its only deployment. */
type Entry = Pick<DeploymentSettings, keyof typeof deploymentSettings | "capabilities"> & {
  readonly engine?: DeploymentSettings["engine"] | undefined;
};

type Path = readonly (string | number)[];

function entriesOf(
  model: Entry & { readonly deployments?: readonly DeploymentSettings[] | undefined },
): readonly (readonly [Path, Entry])[] {
  const below = (model.deployments ?? []).map((entry, i) => [["deployments", i], entry] as const);
  return [[[], model], ...below];
}

function checkEntry(path: Path, entry: Entry, report: Report): void {
  const kind = engineKinds.find(({ name }) => name === entry.engine);
  if (kind === undefined) return;
  const { slots = 0 } = entry;
  if (slots > kind.defaults.slotsMax && slots <= slotsMax) {
    report([...path, "slots"], `must be at most ${kind.defaults.slotsMax} for the engine ${kind.name}`);
  }
  const others = engineKinds.filter((other) => other !== kind).flatMap((other): readonly string[] => other.settings);
  const foreign = path.length > 0 && kind.name !== "openai" ? [...others, "capabilities"] : others;
  for (const name of foreign as (keyof typeof entry)[]) {
    if (entry[name] != null) report([...path, name], `is not valid for the engine ${kind.name}`);
  }
  if (kind.name !== "openai") return;
  if (entry.upstream == null) {
    report([...path, "upstream"], "is required for the engine openai: set the name of an entry of upstreams");
  }
  reportDoubles(entry.pass_through ?? [], [...path, "pass_through"], report);
  if (path.length > 0 && entry.capabilities != null) {
    checkCapabilities(entry.capabilities, [...path, "capabilities"], report);
  }
}

function checkCapabilities(listed: readonly string[], path: Path, report: Report): void {
  const operations = listed.filter((name) => deploymentOperations.some((one) => one === name));
  if (operations.length === 0) {
    report([...path], `needs an operation: the list is complete, so add one of ${deploymentOperations.join(", ")}`);
  }
  const has = (names: readonly string[]): boolean => names.some((name) => listed.includes(name));
  if (has(["embeddings", "rerank"]) && has(["chat", "completions"])) {
    report([...path], textOrInput);
  }
  reportDoubles(listed, path, report);
}

function reportDoubles(listed: readonly string[], path: Path | string, report: Report): void {
  const at = listed.findIndex((name, i) => listed.indexOf(name) !== i);
  if (at >= 0) report([...(typeof path === "string" ? [path] : path), at], "is listed twice: remove one");
}
