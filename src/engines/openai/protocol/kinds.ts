import type { Capabilities } from "../../../domain/engine/engine.js";
import type {
  DeploymentOperation,
  MessagesFacts,
  UpstreamCapabilities,
  UpstreamKind,
} from "../../../domain/engine/upstream.js";
import { type FormatFields, keptConstraints, knownFields } from "./format-fields.js";

/** Properties in which kinds of servers differ. In all other respects they follow the OpenAI protocol. */
export interface KindProfile {
  /** API of generations: OpenAI's chat completions, or Anthropic's messages. */
  readonly api: "chat" | "messages";
  readonly abilities: Abilities;
  readonly dialect: RequestDialect;
  readonly credential: "bearer" | "api-key" | "x-api-key";
  /** Path below the server's root that answers GET with 200 if the server can serve; null: the list of models is requested. */
  readonly healthPath: string | null;
  /** Path below the server's root that returns its version, and members of the answer; null: there is no such path. */
  readonly version: { readonly path: string; readonly member: string; readonly slots?: string } | null;
  /** Whether `GET /models` lists the models. */
  readonly listsModels: boolean;
  /** See `LoadedModel.hasReplicas`. */
  readonly hasReplicas: boolean;
}

/** Abilities of the models of a kind, unless the configuration of a deployment names others. */
export interface Abilities
  extends Pick<
    Capabilities,
    | "completion"
    | "embeddings"
    | "rerank"
    | "tools"
    | "toolChoice"
    | "parallelTools"
    | "jsonObject"
    | "jsonSchema"
    | "grammar"
    | "logprobs"
    | "echoLogprobs"
    | "logitBias"
    | "penalties"
    | "nativeN"
    | "vision"
    | "audio"
  > {
  /** Where token ids are accepted in place of text. `prompts`: for completions, but not for embeddings. */
  readonly tokenInput: "all" | "prompts" | "none";
  readonly shortenableEmbeddings: boolean;
}

export interface RequestDialect {
  /** Name of the limit of output tokens in chat; `as_sent`: as the client named it. */
  readonly maxTokensField: "max_tokens" | "max_completion_tokens" | "as_sent";
  /** Names of sampling options outside OpenAI's API; null: the server has none, and the option is left out. */
  readonly topK: string | null;
  readonly minP: string | null;
  readonly repetitionPenalty: string | null;
  readonly chatTemplateKwargs: boolean;
  readonly reasoningEffort: boolean;
  /** Whether the role `developer` exists; otherwise `system` is sent. */
  readonly developerRole: boolean;
  /**
   * Whether messages of the assistant may have refusals as parts, and calls whose arguments are not JSON. Other servers reject
   * the former, and answer 400 or 500 to the latter.
   */
  readonly anyHistory: boolean;
  /** Whether a function can be forced by name; otherwise `required` with that function alone has the same effect. */
  readonly namedToolChoice: boolean;
  readonly parallelToolCalls: boolean;
  /** Whether usage can come with every chunk, which makes the usage of an aborted stream exact. */
  readonly continuousUsage: boolean;
  /** Whether progress of a prompt can be requested. Without it, llama.cpp notices an abort only after the whole prompt. */
  readonly promptProgress: boolean;
  /** Whether chunks are padded unless the request declines it. */
  readonly paddedChunks: boolean;
  /** Whether the server implements `echo`; otherwise this engine puts the prompt before the text. */
  readonly echo: boolean;
  /** The server's fields for constraints of a text; null: it has only `response_format`. */
  readonly formatFields: FormatFields | null;
}

const abilities: Abilities = {
  completion: true,
  embeddings: true,
  rerank: false,
  tools: "auto",
  toolChoice: true,
  parallelTools: true,
  jsonObject: true,
  jsonSchema: "full",
  grammar: true,
  logprobs: 20,
  echoLogprobs: false,
  logitBias: true,
  penalties: true,
  nativeN: false,
  vision: true,
  audio: false,
  tokenInput: "prompts",
  shortenableEmbeddings: true,
};

const dialect: RequestDialect = {
  maxTokensField: "max_tokens",
  topK: "top_k",
  minP: "min_p",
  repetitionPenalty: "repetition_penalty",
  chatTemplateKwargs: true,
  reasoningEffort: true,
  developerRole: false,
  anyHistory: false,
  namedToolChoice: true,
  parallelToolCalls: true,
  continuousUsage: false,
  promptProgress: false,
  paddedChunks: false,
  echo: true,
  formatFields: null,
};

const withoutExtensions = { topK: null, minP: null, repetitionPenalty: null, chatTemplateKwargs: false } as const;

const generic: KindProfile = {
  api: "chat",
  abilities,
  dialect: { ...dialect, maxTokensField: "as_sent" },
  credential: "bearer",
  healthPath: null,
  version: null,
  listsModels: true,
  hasReplicas: false,
};

const openai: KindProfile = {
  ...generic,
  abilities: { ...abilities, nativeN: true, audio: true, tokenInput: "all" },
  // Reasoning models reject `max_tokens`, and all chat models take the newer name.
  dialect: {
    ...dialect,
    ...withoutExtensions,
    maxTokensField: "max_completion_tokens",
    developerRole: true,
    anyHistory: true,
    paddedChunks: true,
  },
};

export const kindProfiles: Readonly<Record<UpstreamKind, KindProfile>> = {
  openai,
  azure: {
    ...openai,
    dialect: { ...openai.dialect, paddedChunks: false },
    credential: "api-key",
    listsModels: false,
  },
  vllm: {
    ...generic,
    abilities: { ...abilities, rerank: true, nativeN: true, audio: true, echoLogprobs: true },
    dialect: { ...dialect, continuousUsage: true, formatFields: "vllm" },
    healthPath: "/health",
    version: { path: "/version", member: "version" },
  },
  sglang: {
    ...generic,
    abilities: { ...abilities, rerank: true, nativeN: true },
    dialect: { ...dialect, continuousUsage: true, formatFields: "sglang" },
    healthPath: "/health",
    version: { path: "/get_server_info", member: "version" },
  },
  "llama-server": {
    ...generic,
    // The server limits `n` to its number of slots and ignores `dimensions`.
    abilities: { ...abilities, rerank: true, jsonSchema: "subset", shortenableEmbeddings: false },
    dialect: {
      ...dialect,
      formatFields: "llama-server",
      repetitionPenalty: "repeat_penalty",
      namedToolChoice: false,
      promptProgress: true,
      echo: false,
    },
    healthPath: "/health",
    version: { path: "/props", member: "build_info", slots: "total_slots" },
  },
  ollama: {
    ...generic,
    // The server's requests have no fields for these options: they would be ignored without an error.
    abilities: { ...abilities, toolChoice: false, grammar: false, logprobs: 0, logitBias: false, tokenInput: "none" },
    dialect: { ...dialect, ...withoutExtensions, namedToolChoice: false, parallelToolCalls: false, echo: false },
    healthPath: "/",
    version: { path: "/api/version", member: "version" },
  },
  ray: { ...generic, dialect, healthPath: "/-/healthz", hasReplicas: true },
  anthropic: {
    ...generic,
    api: "messages",
    // Schemas for answers and calls depend on the model: its list states them.
    abilities: {
      ...abilities,
      completion: false,
      embeddings: false,
      jsonObject: false,
      jsonSchema: "none",
      grammar: false,
      logprobs: 0,
      logitBias: false,
      penalties: false,
      tokenInput: "none",
    },
    // Requests have another form (Messages API); the dialect states only which options they accept.
    dialect: { ...dialect, ...withoutExtensions, topK: "top_k", echo: false },
    credential: "x-api-key",
  },
  generic,
};

/** What is known about a model besides the kind of its server. */
export interface ModelFacts {
  /** Id on the upstream server. */
  readonly model: string;
  readonly contextLength: number | null;
  readonly embeddingDims: number | null;
  /** Whether the model takes images; null: the value of its kind applies. */
  readonly images: boolean | null;
  /** All capabilities, from the configuration; null: those of the kind apply, and the id decides about operations. */
  readonly capabilities: UpstreamCapabilities | null;
  /** Names of further fields that the configuration passes on. */
  readonly passThrough: readonly string[];
  readonly messages?: MessagesFacts | undefined;
}

const isEmbedder = /embed|(^|[/_-])(bge|e5|gte|minilm|nomic|jina)([/_.-]|$)|all-minilm/i;
const isReranker = /rerank|cross-encoder/i;

/** OpenAI's models for images, video, speech, moderation and live audio, and models that only its Responses API offers. */
const isOtherModality =
  /(^|-)(dall-e|image|sora|whisper|tts|transcribe|moderation|realtime|codex|computer-use|deep-research)(-|$)|^(o\d|gpt-[\d.]+)-pro/;
/** OpenAI's models that support only text completions. */
const isCompleter = /^(babbage|davinci)-|-instruct(-|$)/;

/**
 * Operations of a model, guessed from its id, because model lists do not state them. Empty: OpenAI lists the model, but it
 * supports none of the operations.
 */
export function guessOperations(kind: UpstreamKind, model: string): readonly DeploymentOperation[] {
  if (kind === "openai" && isOtherModality.test(model)) return [];
  if (kind === "openai" && isCompleter.test(model)) return ["completions"];
  const { completion, embeddings, rerank } = kindProfiles[kind].abilities;
  if (isReranker.test(model)) return rerank ? ["rerank"] : ["chat"];
  if (isEmbedder.test(model)) return embeddings ? ["embeddings"] : ["chat"];
  return completion ? ["chat", "completions"] : ["chat"];
}

/** A configured model can be used, whatever its id. */
function configuredOperations(kind: UpstreamKind, model: string): readonly DeploymentOperation[] {
  const guessed = guessOperations(kind, model);
  return guessed.length > 0 ? guessed : ["chat"];
}

/** Fields outside the API contract that servers of a kind obey or reject; they are passed on as the client sent them. */
export function passedFieldsOf(kind: UpstreamKind): readonly string[] {
  const { formatFields } = kindProfiles[kind].dialect;
  return formatFields === null ? [] : knownFields[formatFields];
}

export function capabilitiesOf(kind: UpstreamKind, facts: ModelFacts): Capabilities {
  const { model, contextLength, embeddingDims, images, capabilities, passThrough, messages } = facts;
  const bound = messages?.jsonSchema === true ? ({ jsonSchema: "full", grammar: true } as const) : {};
  const listed = { ...kindProfiles[kind].abilities, ...bound, ...(images === null ? {} : { vision: images }) };
  const { tokenInput, shortenableEmbeddings, ...found } = configured(listed, capabilities);
  const { formatFields } = kindProfiles[kind].dialect;
  const operations = capabilities?.operations ?? configuredOperations(kind, model);
  const embeddings = operations.includes("embeddings");
  const generates = operations.includes("chat") || operations.includes("completions");
  return {
    ...found,
    chat: operations.includes("chat"),
    completion: operations.includes("completions"),
    embeddings,
    rerank: operations.includes("rerank"),
    contextLength,
    maxOutput: messages?.maxOutput ?? null,
    ...(embeddings ? { shortenableEmbeddings } : {}),
    ...(embeddings && embeddingDims !== null ? { embeddingDims } : {}),
    ...(embeddings && contextLength !== null ? { maxEmbedTokens: contextLength } : {}),
    tokenInput: tokenInput === "all" || (tokenInput === "prompts" && generates),
    ...(formatFields === null ? {} : { constraints: keptConstraints[formatFields] }),
    passedFields: new Set([...passThrough, ...passedFieldsOf(kind)]),
  };
}

/** The abilities that the configuration lists, or `found` if it lists none. */
function configured(found: Abilities, capabilities: UpstreamCapabilities | null): Abilities {
  if (capabilities === null) return found;
  const { abilities } = capabilities;
  const choice = abilities.includes("tool_choice");
  return {
    ...found,
    tools: choice || abilities.includes("tools") ? "auto" : "none",
    toolChoice: choice,
    jsonObject: abilities.includes("json_object") || abilities.includes("json_schema"),
    jsonSchema: abilities.includes("json_schema") ? "full" : "none",
    logprobs: abilities.includes("logprobs") ? 20 : 0,
    nativeN: abilities.includes("n"),
    vision: abilities.includes("vision"),
    audio: abilities.includes("audio"),
  };
}
