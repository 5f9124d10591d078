import { create } from "@bufbuild/protobuf";
import {
  type ChatCompletionParams,
  type ContentPart,
  MessageSchema,
  Role,
  type Tool,
  ToolChoice_Mode,
} from "../../../gen/unified/inference/v1/chat_pb.js";
import type { CompletionParams } from "../../../gen/unified/inference/v1/completion_pb.js";
import { invariant, refuse, ServiceError } from "../call/service-error.js";
import type {
  Capabilities,
  GenerateInput,
  GenerateRequest,
  PassOn,
  RequestDefaults,
  ToolChoiceSpec,
} from "../engine/engine.js";
import { addConstraints } from "./constraints.js";

/** Builds the engine request of a valid chat request. Throws ServiceError for a feature that the model does not support. */
export function toChatRequest(
  params: ChatCompletionParams,
  caps: Capabilities,
  defaults: RequestDefaults | null,
): GenerateRequest {
  params.messages.forEach(({ content }, i) => {
    content.forEach((part, j) => {
      if (part.part.case !== "text") refuseUnlessPartAble(part, caps, `messages[${i}].content[${j}]`, params.model);
    });
  });
  const requested = requestedTools(params);
  // For a model that calls tools only when forced to, `auto` offers none and the answer is text.
  const isIgnored = caps.tools === "forced-only" && requested.toolChoice.mode === "auto";
  const { tools, toolChoice }: Offer = isIgnored ? { tools: [], toolChoice: { mode: "none" } } : requested;
  refuseUnlessAble(caps.tools !== "none" || tools.length === 0, "tools", params.model);
  const isForced = toolChoice.mode === "required" || toolChoice.mode === "named";
  refuseValueUnlessAble(caps.toolChoice || !isForced, "Forced tool calls are", "tool_choice", params.model);
  for (const tool of tools) {
    const param = `tools[${params.tools.indexOf(tool)}].function.strict`;
    refuseUnlessAble(caps.grammar || tool.function?.strict !== true, param, params.model);
  }
  const logprobs = params.logprobs === true ? (params.topLogprobs ?? 0) : undefined;
  refuseValueUnlessAble(
    caps.logprobs === 0 || (logprobs ?? 0) <= caps.logprobs,
    `More than ${caps.logprobs} alternatives per token are`,
    "top_logprobs",
    params.model,
  );
  const format = toFormat(params, caps);
  const parallelToolCalls = caps.parallelTools && (params.parallelToolCalls ?? true);
  const input = { messages: params.messages, tools, toolChoice, parallelToolCalls };
  const options = { maxTokens: params.maxCompletionTokens ?? params.maxTokens, logprobs };
  const request = toGenerate(input, params, options, caps, defaults);
  if (format !== undefined) request.format = format;
  if (params.reasoningEffort !== undefined) request.reasoningEffort = params.reasoningEffort;
  if (params.chatTemplateKwargsJson !== undefined) request.chatTemplateKwargsJson = params.chatTemplateKwargsJson;
  const passOn = passOnOf(params);
  if (passOn !== null) request.passOn = passOn;
  if (hasKeys(params.passThroughJson)) addConstraints(request, params.passThroughJson, caps, params.model);
  return request;
}

/** Null when the client set none of the fields. */
function passOnOf(params: ChatCompletionParams): PassOn | null {
  const passOn: Mutable<PassOn> = {};
  if (params.user !== undefined) passOn.user = params.user;
  if (params.safetyIdentifier !== undefined) passOn.safetyIdentifier = params.safetyIdentifier;
  if (params.promptCacheKey !== undefined) passOn.promptCacheKey = params.promptCacheKey;
  if (hasKeys(params.metadata)) passOn.metadata = params.metadata;
  if (params.store !== undefined) passOn.store = params.store;
  if (params.serviceTier !== undefined) passOn.serviceTier = params.serviceTier;
  if (params.verbosity !== undefined) passOn.verbosity = params.verbosity;
  if (params.maxCompletionTokens !== undefined) passOn.hasMaxCompletionTokens = true;
  if (hasKeys(params.passThroughJson)) passOn.fieldsJson = params.passThroughJson;
  return hasKeys(passOn) ? passOn : null;
}

export function hasKeys(object: object): boolean {
  for (const _ in object) return true;
  return false;
}

function refuseUnlessPartAble({ part }: ContentPart, caps: Capabilities, param: string, model: string): void {
  if (part.case === "imageUrl") refuseValueUnlessAble(caps.vision, "Images are", param, model);
  if (part.case === "inputAudio") refuseValueUnlessAble(caps.audio, "Audio input is", param, model);
  if (part.case === "file") refuseValueUnlessAble(false, "Files are", param, model);
}

interface Offer {
  readonly tools: readonly Tool[];
  readonly toolChoice: ToolChoiceSpec;
}

/** The callable tools and the tool choice mode; no tools for `tool_choice: none` (TOOL-3, TOOL-4, TOOL-6). */
function requestedTools({ tools, toolChoice }: ChatCompletionParams): Offer {
  const named = (names: readonly string[]): Tool[] => tools.filter((tool) => names.includes(tool.function?.name ?? ""));
  const choice = toolChoice?.choice;
  switch (choice?.case) {
    case "function":
      return { tools: named([choice.value]), toolChoice: { mode: "named", name: choice.value } };
    case "allowed":
      return { tools: named(choice.value.names), toolChoice: { mode: modeOf(choice.value.mode) } };
    default: {
      const mode = tools.length === 0 ? "none" : modeOf(choice?.value ?? ToolChoice_Mode.AUTO);
      return { tools: mode === "none" ? [] : tools, toolChoice: { mode } };
    }
  }
}

function modeOf(mode: ToolChoice_Mode): "none" | "auto" | "required" {
  if (mode === ToolChoice_Mode.NONE) return "none";
  return mode === ToolChoice_Mode.REQUIRED ? "required" : "auto";
}

function toFormat(
  { responseFormat, model }: ChatCompletionParams,
  caps: Capabilities,
): GenerateRequest["format"] | undefined {
  const format = responseFormat?.format;
  if (format?.case !== "jsonObject" && format?.case !== "jsonSchema") return undefined;
  const isAble = format.case === "jsonObject" ? caps.jsonObject : caps.jsonSchema !== "none";
  refuseValueUnlessAble(isAble, "Formats other than 'text' are", "response_format", model);
  if (format.case === "jsonObject") return { type: "json_object" };
  const { name, schemaJson, strict } = format.value;
  return { type: "json_schema", name, schemaJson: schemaJson ?? "{}", strict: strict ?? false };
}

/** An object under construction: absent fields are never set, because spreads would cost every request. */
type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Builds an engine request; `logprobs` undefined: none. Throws for a feature that the model does not support. */
export function toGenerate(
  input: GenerateInput,
  params: ChatCompletionParams | CompletionParams,
  options: { readonly maxTokens: number | undefined; readonly logprobs: number | undefined },
  caps: Capabilities,
  defaults: RequestDefaults | null,
): Mutable<GenerateRequest> {
  const logitBias = Object.entries(params.logitBias).map(([id, bias]) => [Number(id), bias] as const);
  refuseUnlessAble(caps.logitBias || logitBias.length === 0, "logit_bias", params.model);
  refuseUnlessAble(caps.penalties || !params.frequencyPenalty, "frequency_penalty", params.model);
  refuseUnlessAble(caps.penalties || !params.presencePenalty, "presence_penalty", params.model);
  refuseUnlessAble(caps.logprobs > 0 || options.logprobs === undefined, "logprobs", params.model);
  const request: Mutable<GenerateRequest> = {
    input,
    n: params.n ?? 1,
    maxTokens:
      options.maxTokens === undefined ? null : Math.min(options.maxTokens, caps.maxOutput ?? options.maxTokens),
    stop: params.stop.filter((text) => text !== ""),
    requestId: "",
    queueMs: 0,
    cacheKey: "",
    deltas: "joined",
  };
  if (params.temperature !== undefined) request.temperature = params.temperature;
  if (params.topP !== undefined) request.topP = params.topP;
  if (params.frequencyPenalty !== undefined) request.frequencyPenalty = params.frequencyPenalty;
  if (params.presencePenalty !== undefined) request.presencePenalty = params.presencePenalty;
  if (params.topK !== undefined) request.topK = params.topK;
  if (params.minP !== undefined) request.minP = params.minP;
  if (params.repetitionPenalty !== undefined) request.repetitionPenalty = params.repetitionPenalty;
  if (params.seed !== undefined) request.seed = params.seed;
  if (logitBias.length > 0) request.logitBias = new Map(logitBias);
  if (options.logprobs !== undefined) request.logprobs = options.logprobs;
  if (defaults !== null) applyDefaults(request, defaults, caps);
  return request;
}

/** Fills the fields that the client left unset with the defaults of the model. */
function applyDefaults(
  request: Mutable<GenerateRequest>,
  { temperature, topP, minP, repetitionPenalty, maxTokens, stop, system }: RequestDefaults,
  { maxOutput }: Capabilities,
): void {
  if (temperature !== null) request.temperature ??= temperature;
  if (topP !== null) request.topP ??= topP;
  if (minP !== null) request.minP ??= minP;
  if (repetitionPenalty !== null) request.repetitionPenalty ??= repetitionPenalty;
  if (maxTokens !== null) request.maxTokens ??= Math.min(maxTokens, maxOutput ?? maxTokens);
  if (request.stop.length === 0) request.stop = stop;
  const { input } = request;
  if (system === null || !("messages" in input)) return;
  if (input.messages.some(({ role }) => role === Role.SYSTEM || role === Role.DEVELOPER)) return;
  const message = create(MessageSchema, {
    role: Role.SYSTEM,
    content: [{ part: { case: "text", value: system } }],
  });
  request.input = { ...input, messages: [message, ...input.messages] };
}

/** Throws for a known field that the model does not support (ERR-8). */
export function refuseUnlessAble(able: boolean, param: string, model: string): void {
  if (able) return;
  refuse("unsupported_parameter", param, `'${param}' is not supported by the model '${model}'.`);
}

/** Throws for a known value that the model does not support. `what` begins the sentence: "Images are". */
export function refuseValueUnlessAble(able: boolean, what: string, param: string, model: string): void {
  if (able) return;
  refuse("unsupported_value", param, `${what} not supported by the model '${model}'.`);
}

/**
 * Throws for token ids if the model takes only text (EMB-2): ids of another vocabulary would give a wrong answer
 * unnoticed. The hint names the setting of the client that sends them.
 */
export function refuseUnlessTokenInput(able: boolean, param: "input" | "prompt", model: string): void {
  if (able) return;
  const sentence = `The model '${model}' takes '${param}' as text, not as token ids. ${tokenInputHints[param]}`;
  refuse("token_input_not_supported", param, sentence);
}

const tokenInputHints = {
  input: "With LangChain for Python, set check_embedding_ctx_length=False.",
  prompt: "With lm-eval, set tokenized_requests=False.",
} as const;

/** One engine run, with the number of its first choice in the request. */
export interface Prompt {
  readonly base: number;
  readonly request: GenerateRequest;
  /** False for repeated runs of a prompt. */
  readonly countsPrompt: boolean;
}

/** Builds the engine requests of a request, in order. Throws ServiceError for a feature that the model does not support. */
export type BuildRequests = (caps: Capabilities) => readonly GenerateRequest[];

/**
 * The engine runs of a request. The deployments of a model can differ in what they can do, so the requests are built for
 * the capabilities of the deployment that runs them; their number and order are the same for all.
 */
export class RunPlan {
  readonly prompts: readonly Prompt[];
  readonly #build: BuildRequests;
  readonly #caps: Capabilities;
  readonly #nativeN: boolean;
  /**
   * Null until a deployment with other capabilities is considered. A null value means that such a deployment cannot run the
   * request.
   */
  #others: Map<Capabilities, readonly Prompt[] | null> | null = null;

  /** `candidates`: capabilities of the deployments, at least one. Throws ServiceError when none can run the request. */
  constructor(build: BuildRequests, candidates: readonly Capabilities[]) {
    this.#build = build;
    this.#nativeN = candidates.every(({ nativeN }) => nativeN);
    const { caps, built } = buildForAny(candidates, build);
    this.#caps = caps;
    this.prompts = planPrompts(built, this.#nativeN);
  }

  /** Whether a deployment can run the request. */
  can(caps: Capabilities): boolean {
    return caps === this.#caps || this.#promptsFor(caps) !== null;
  }

  /** The request of one of `prompts` for a deployment that can run it. */
  requestOf(prompt: Prompt, caps: Capabilities): GenerateRequest {
    if (caps === this.#caps) return prompt.request;
    const { request } = this.#promptsFor(caps)?.[this.prompts.indexOf(prompt)] ?? {};
    invariant(request !== undefined, "a deployment that cannot run a request is not chosen");
    return request;
  }

  #promptsFor(caps: Capabilities): readonly Prompt[] | null {
    this.#others ??= new Map();
    const known = this.#others.get(caps);
    if (known !== undefined) return known;
    const prompts = builtOrNull(() => planPrompts(this.#build(caps), this.#nativeN));
    this.#others.set(caps, prompts);
    return prompts;
  }
}

/**
 * Builds a request for the first deployment that can run it. `candidates`: capabilities of the deployments, at least one.
 * Throws the ServiceError of the first one when none can.
 */
export function buildForAny<Q>(
  candidates: readonly Capabilities[],
  build: (caps: Capabilities) => Q,
): { readonly caps: Capabilities; readonly built: Q } {
  const [first, ...others] = candidates;
  invariant(first !== undefined, "a request has a deployment to run on");
  try {
    return { caps: first, built: build(first) };
  } catch (refused) {
    if (!(refused instanceof ServiceError)) throw refused;
    for (const caps of others) {
      const built = builtOrNull(() => build(caps));
      if (built !== null) return { caps, built };
    }
    throw refused;
  }
}

/** The result of `build`; null when it refuses the request with a ServiceError. Other errors are thrown. */
export function builtOrNull<Q>(build: () => Q): Q | null {
  try {
    return build();
  } catch (thrown) {
    if (thrown instanceof ServiceError) return null;
    throw thrown;
  }
}

/**
 * Plans the engine runs of a request. Choices are numbered prompt by prompt (CMPL-3). For an engine that cannot
 * generate several choices, a prompt runs several times with seeds at a fixed distance and counts once (CHAT-3,
 * CMPL-13).
 */
function planPrompts(requests: readonly GenerateRequest[], nativeN: boolean): readonly Prompt[] {
  const prompts: Prompt[] = [];
  let base = 0;
  for (const request of requests) {
    const { n, seed } = request;
    if (n === 1 || nativeN) prompts.push({ base, request, countsPrompt: true });
    else
      for (let k = 0; k < n; k++) {
        const ownSeed = seed === undefined ? {} : { seed: BigInt.asIntN(64, seed + BigInt(k)) };
        prompts.push({ base: base + k, request: { ...request, n: 1, ...ownSeed }, countsPrompt: k === 0 });
      }
    base += n;
  }
  return prompts;
}
