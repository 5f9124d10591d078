import type { Message, Tool } from "../../../gen/unified/inference/v1/chat_pb.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import type { NativeRequest } from "./native-request.js";
import type { Constraint, TextFormat } from "./text-format.js";
import type { NativeApi } from "./upstream.js";

/**
 * Port of everything that runs models. The domain queues requests; an engine rejects requests that exceed its slots with
 * `overloaded`. Every wait in an engine ends when the signal aborts.
 */
export interface Engine {
  /** Rejects with EngineError. */
  load(spec: ModelSpec, onProgress: (progress: LoadProgress) => void, signal: AbortSignal): Promise<LoadedModel>;
}

/** One configured deployment. */
export interface ModelSpec {
  /** Catalog id. */
  readonly id: string;
  /** Id of the deployment. */
  readonly deployment: string;
  readonly contextLength: number;
  readonly slots: number;
  /** The engine's own options, checked by the configuration. */
  readonly options: unknown;
}

export interface LoadProgress {
  /** `converting`: a downloaded model is converted into the engine's format. */
  readonly stage: "fetching" | "converting" | "loading";
  /** 0 to 1. */
  readonly share: number;
  /** Bytes of the download so far. */
  readonly receivedBytes?: number;
  /** Size of the download; null while unknown. */
  readonly totalBytes?: number | null;
}

export interface LoadedModel {
  readonly id: string;
  readonly caps: Capabilities;
  /**
   * Changes whenever the engine, the weights or the sampling code does (RESP-11). Printable ASCII. An `accepted` event may
   * name another fingerprint, because an upstream server sends its own only with the answer.
   */
  readonly fingerprint: string;
  /** Values recommended for the model's file, for fields that neither the client nor the configuration sets. */
  readonly defaults?: RequestDefaults;
  /**
   * Counts the tokens of a prompt rendered with `options`. Null, or no such method: the engine cannot count before it runs.
   */
  countTokens?(input: GenerateInput, signal: AbortFlag, options?: PromptOptions): Promise<number | null>;
  /**
   * Runs one prompt and emits its events: those of one choice in order, one `finish` per choice, and `usage` last. Then
   * resolves. Rejects with EngineError; after an abort its `usage` contains the tokens produced.
   */
  generate(request: GenerateRequest, signal: AbortFlag, emit: EmitEvent): Promise<void>;
  embed(request: EmbedRequest, signal: AbortFlag): Promise<EmbedResult>;
  /** Scores documents by their relevance to a query. Rejects with `unsupported` unless `caps.rerank`. */
  rerank(request: RerankRequest, signal: AbortFlag): Promise<RerankResult>;
  stats(): EngineStats;
  /** Milliseconds until its server accepts requests again after it rejected or limited every key. 0 or absent: now. */
  readonly heldForMs?: number;
  /** Whether its server spreads requests over several others, so that another try may reach another one. Absent: no. */
  readonly hasReplicas?: boolean;
  /**
   * Asks the model's server, by a request that uses no tokens, whether it can run requests. Resolves with false soon after
   * an abort. Absent: the model runs in this process or a child of it.
   */
  isReachable?(signal: AbortFlag): Promise<boolean>;
  unload(graceMs: number): Promise<void>;
}

/** Values for fields of generation requests that the client leaves unset; null: the engine decides. */
export interface RequestDefaults {
  readonly temperature: number | null;
  readonly topP: number | null;
  readonly minP: number | null;
  readonly repetitionPenalty: number | null;
  readonly maxTokens: number | null;
  /** Non-empty texts; an empty list is none. */
  readonly stop: readonly string[];
  /** System message of chats without a system or developer message. */
  readonly system: string | null;
}

export interface Capabilities {
  readonly chat: boolean;
  readonly completion: boolean;
  readonly embeddings: boolean;
  readonly rerank: boolean;
  /** Tokens of prompt and answer together; null: not known, so the engine itself rejects longer ones. */
  readonly contextLength: number | null;
  /** Null: not known. */
  readonly maxOutput: number | null;
  readonly embeddingDims?: number;
  /** Whether vectors may be shortened to fewer dimensions (EMB-8). */
  readonly shortenableEmbeddings?: boolean;
  readonly maxEmbedTokens?: number;
  readonly tools: "none" | "forced-only" | "auto";
  /** Whether calls can be forced: `required`, or one function by name. */
  readonly toolChoice: boolean;
  readonly parallelTools: boolean;
  readonly jsonObject: boolean;
  readonly jsonSchema: "none" | "subset" | "full";
  readonly grammar: boolean;
  /** Constraints of answers, in addition to JSON, that the engine enforces. Absent: none. */
  readonly constraints?: readonly Constraint[];
  /** Names of request fields outside this service's API that the model's server receives. Absent: none. */
  readonly passedFields?: ReadonlySet<string>;
  /** Maximum number of alternatives per position; 0: no log probabilities. */
  readonly logprobs: number;
  readonly echoLogprobs: boolean;
  readonly logitBias: boolean;
  readonly penalties: boolean;
  /** Whether one call can generate several choices. */
  readonly nativeN: boolean;
  /** Whether prompts and inputs may be token ids. */
  readonly tokenInput: boolean;
  readonly vision: boolean;
  readonly audio: boolean;
  /** API families whose requests the engine runs without a translation. Absent: none. */
  readonly native?: readonly NativeApi[];
}

/** Capabilities of a model whose context is known. */
export type BoundedCapabilities = Capabilities & { readonly contextLength: number };

export type ToolChoiceSpec =
  | { readonly mode: "none" | "auto" | "required" }
  | { readonly mode: "named"; readonly name: string };

export type GenerateInput =
  | {
      readonly messages: readonly Message[];
      /** Callable tools only; empty when none may be called. */
      readonly tools: readonly Tool[];
      readonly toolChoice: ToolChoiceSpec;
      readonly parallelToolCalls: boolean;
    }
  | { readonly prompt: string | readonly number[] };

/** Options that affect the rendered prompt. */
export type PromptOptions = Pick<GenerateRequest, "format" | "reasoningEffort" | "chatTemplateKwargsJson">;

/** A prompt with its options. The mutable fields are set in place when the request has a slot: a copy would cost time. */
export interface GenerateRequest {
  requestId: string;
  readonly input: GenerateInput;
  /** Number of choices; 1 unless caps.nativeN. */
  readonly n: number;
  /** Maximum tokens of each choice. The engine also limits them to the rest of its context. */
  readonly maxTokens: number | null;
  /** Non-empty texts. */
  readonly stop: readonly string[];
  // A sampling option that the client did not set stays absent: an engine applies its own default, and an upstream server
  // must not receive a value that nobody chose.
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly minP?: number;
  readonly repetitionPenalty?: number;
  readonly seed?: bigint;
  readonly frequencyPenalty?: number;
  readonly presencePenalty?: number;
  readonly logitBias?: ReadonlyMap<number, number>;
  /** Number of alternatives per position; absent: no log probabilities. */
  readonly logprobs?: number;
  /** Whether the text begins with the prompt; with `logprobs`, its tokens have log probabilities before all samplers. */
  readonly echo?: boolean;
  readonly format?: TextFormat;
  /** Tokens before the model may end the answer; absent: none. Stop strings end it even before. */
  readonly minTokens?: number;
  /** Whether the model may not end the answer before its token limit. */
  readonly ignoreEos?: boolean;
  readonly reasoningEffort?: string;
  readonly chatTemplateKwargsJson?: string;
  /** Absent when the client set none of these fields. */
  readonly passOn?: PassOn;
  /** Only for engines with its API in `caps.native`, which then send it instead of the fields above. */
  readonly native?: NativeRequest;
  /** Time spent waiting for the slot: an engine with its own time limit subtracts it. */
  queueMs: number;
  /** Tenant of the prefix cache: tenants never share its entries. */
  cacheKey: string;
  /** `joined`: the answer is not streamed, so text events of a choice may be joined. */
  deltas: "each" | "joined";
}

/** Fields that an upstream server receives as the client sent them. Engines that run models themselves ignore them. */
export interface PassOn {
  readonly user?: string;
  readonly safetyIdentifier?: string;
  readonly promptCacheKey?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly store?: boolean;
  readonly serviceTier?: string;
  readonly verbosity?: string;
  /** Whether the client set `max_completion_tokens` instead of `max_tokens`. */
  readonly hasMaxCompletionTokens?: boolean;
  /** Fields outside this service's API, as JSON text by name. A deployment passes on those that its `pass_through` names. */
  readonly fieldsJson?: Readonly<Record<string, string>>;
}

export interface TokenLogprobInfo extends TokenLogprob {
  readonly top: readonly TokenLogprob[];
}

export interface TokenLogprob {
  readonly token: string;
  /** -9999.0 stands for "never" (RESP-9); NaN only for the first token of an echoed prompt, which follows no other. */
  readonly logprob: number;
  /** Set for a token that is a part of a character, or whose text is not shown; otherwise the bytes are those of `token`. */
  readonly bytes?: readonly number[];
}

/** Receives an event. The engine waits for a returned promise before it emits the next one: this is backpressure. */
export type EmitEvent = (event: GenEvent) => Promise<void> | undefined;

/**
 * outTokens are cumulative per choice and include text that is held back. An engine without exact counts estimates them
 * until `usage`, which may also come during the answer with the counts so far; the last one is final.
 */
export type GenEvent =
  | {
      readonly type: "accepted";
      readonly promptTokens: number | null;
      readonly cachedTokens: number;
      /** Fingerprint of the answer, if it differs from the model's. */
      readonly fingerprint?: string;
    }
  /** `text`: whole code points, never a part of a stop string. */
  | {
      readonly type: "text";
      readonly choice: number;
      readonly text: string;
      readonly outTokens: number;
      readonly logprobs?: readonly TokenLogprobInfo[];
    }
  | {
      readonly type: "reasoning" | "refusal";
      readonly choice: number;
      readonly text: string;
      readonly outTokens: number;
    }
  /** `id` and `name` are set in the first event of a call only; `index` numbers the calls from 0, one after the other. */
  | {
      readonly type: "tool";
      readonly choice: number;
      readonly index: number;
      readonly outTokens: number;
      readonly id?: string;
      readonly name?: string;
      readonly argsDelta?: string;
    }
  /**
   * Answer to a native request. For a stream, `text` is whole events of its API: the first have content, the last have
   * `isLast`. Otherwise it is the whole answer as JSON, with `isLast`.
   */
  | {
      readonly type: "native";
      readonly choice: number;
      readonly text: string;
      readonly outTokens: number;
      readonly isLast: boolean;
    }
  | {
      readonly type: "finish";
      readonly choice: number;
      readonly reason: FinishReason;
      readonly outTokens: number;
      /** The stop string that ended the choice; absent: another cause, or the engine cannot name it. */
      readonly stopSequence?: string;
    }
  | {
      readonly type: "usage";
      readonly promptTokens: number;
      readonly outTokens: number;
      readonly cachedTokens: number;
      readonly reasoningTokens: number;
    };

export type FinishReason = "stop" | "length" | "tool_calls" | "content_filter";

export interface EmbedRequest {
  readonly inputs: readonly (string | readonly number[])[];
  readonly dimensions?: number;
  /** Time spent waiting for the slot. */
  queueMs?: number;
}

export interface EmbedResult {
  /** One vector per input, in order; finite numbers. */
  readonly vectors: readonly Float32Array[];
  readonly promptTokens: number;
}

/** Whether all numbers of a vector are finite. Takes one addition each: a call per number is ten times slower. */
export function isFiniteVector(vector: Float32Array): boolean {
  let sum = 0;
  // 0 times a finite number is 0, any other is NaN.
  for (let i = 0; i < vector.length; i++) sum += (vector[i] ?? Number.NaN) * 0;
  return sum === 0;
}

export interface RerankRequest {
  /** Not empty. */
  readonly query: string;
  /** At least one; none of them is empty. */
  readonly documents: readonly string[];
  /** Time spent waiting for the slot. */
  queueMs?: number;
}

export interface RerankResult {
  /** One score per document, in the order of the request; finite, and higher for a more relevant document. */
  readonly scores: readonly number[];
  readonly promptTokens: number;
}

export interface EngineStats {
  readonly slotsBusy: number;
  readonly producedTokens: number;
  readonly restarts: number;
  /** Resident memory of the model's own process. Absent: it has none. */
  readonly memoryBytes?: number;
}

/** Internal codes; clients see those of `contract/errors.ts`. */
export type EngineErrorCode =
  | "overloaded"
  | "context_overflow"
  | "unsupported"
  | "bad_schema"
  | "bad_input"
  | "model_not_loaded"
  | "model_loading"
  | "engine_restarted"
  | "upstream_error"
  | "unauthorized"
  | "forbidden"
  | "rate_limited"
  | "internal"
  | "timeout"
  | "aborted";

export interface EngineUsage {
  readonly promptTokens: number;
  readonly outTokens: number;
  readonly cachedTokens: number;
}

/** Thrown by engines. The message is public for `context_overflow`, `unsupported`, `bad_schema` and `bad_input`. */
export class EngineError extends Error {
  override readonly name = "EngineError";
  readonly code: EngineErrorCode;
  /** Whether another deployment, or the same one later, may succeed. */
  readonly retryable: boolean;
  readonly param: string | null;
  /** Wait after which the same call can succeed; null if the engine cannot estimate it. */
  readonly retryAfterMs: number | null;
  /** Usage before an abort or failure. */
  readonly usage: EngineUsage | null;

  constructor(
    code: EngineErrorCode,
    message: string,
    options: {
      retryable?: boolean;
      param?: string;
      retryAfterMs?: number;
      usage?: EngineUsage;
      cause?: unknown;
    } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = options.retryable ?? false;
    this.param = options.param ?? null;
    this.retryAfterMs = options.retryAfterMs ?? null;
    this.usage = options.usage ?? null;
  }
}

/** Registration of a kind of engine with the service. */
export interface EngineKind<Deps> {
  /** Name in the configuration. */
  readonly name: string;
  /** Settings of a model's entry that only this engine reads. */
  readonly settings: readonly string[];
  /** Concurrent calls of a model: default and maximum. */
  readonly defaults: { readonly slots: number; readonly slotsMax: number };
  create(deps: Deps): Engine;
}
