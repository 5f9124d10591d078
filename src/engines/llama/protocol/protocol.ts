import {
  EngineError,
  type EngineErrorCode,
  type GenEvent,
  type GenerateRequest,
  type ToolChoiceSpec,
} from "../../../domain/engine/engine.js";
import type { AbortFlag } from "../../../lib/abort-source.js";
import type { BuildChoice } from "../builds/builds.js";

/**
 * Messages between the server and the child process that runs one model, sent over the child's IPC channel with
 * structured cloning. The server numbers its calls; every answer carries the number. Both sides always have the same
 * version, so no message needs to stay compatible.
 */

/** The model that a child loads. */
export interface ChildModel {
  /** Id of the model in the catalog, for error messages. */
  readonly id: string;
  /** Absolute path of a verified GGUF file. */
  readonly path: string;
  readonly kind: "chat" | "embedding";
  /** Tokens of prompt and answer together, per slot. The child lowers it to the trained context length. */
  readonly contextLength: number;
  /** Maximum number of concurrent calls; for a chat model, the number of sequences in its context. 1 or more. */
  readonly slots: number;
  /** Threads of the engine. 1 or more. */
  readonly threads: number;
  /** The builds of the binding to try. */
  readonly build: BuildChoice;
}

/** Properties of a loaded model. */
export interface LoadedFacts {
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Bytes of the longest text of one token; bounds the text of a prompt. */
  readonly longestTokenBytes: number;
  /** Length of the vectors; null for a chat model. */
  readonly embeddingDims: number | null;
  /** How tools are offered: by the model's template, by our own text and only when a call is forced, or not at all. */
  readonly tools: "none" | "forced-only" | "auto";
  /** Twelve hex digits of a hash of the weights' header, the binding's version and the version of our sampling code. */
  readonly fingerprint: string;
  readonly bindingVersion: string;
  /** The graphics support and the layers that compute on it. */
  readonly placement: Placement;
}

/** Where a model's layers compute: on the graphics card or on the processor. */
export interface Placement {
  /** Kind of graphics support in use; null: the processor alone. */
  readonly gpu: string | null;
  /** Number of layers on the card; `layers`: of the whole model. */
  readonly gpuLayers: number;
  readonly layers: number;
  /** Chosen builds that do not load on this machine. */
  readonly unusable: readonly string[];
}

/** A message of a conversation as chat templates expect it. */
export interface TemplateMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly name?: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly TemplateToolCall[];
  readonly tool_call_id?: string;
}

export interface TemplateToolCall {
  readonly id: string;
  readonly type: "function";
  /** `arguments` is the parsed JSON, or the text if it is not a JSON object. */
  readonly function: { readonly name: string; readonly arguments: unknown };
}

/** A function that may be called. `parameters` is its parsed JSON Schema; a function without one has no arguments. */
export interface TemplateTool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description?: string;
    readonly parameters: object;
    readonly strict: boolean;
  };
}

export type ChildInput =
  | {
      readonly type: "chat";
      readonly messages: readonly TemplateMessage[];
      /** Callable tools only. */
      readonly tools: readonly TemplateTool[];
      readonly toolChoice: ToolChoiceSpec;
      readonly parallelToolCalls: boolean;
      /** Variables for the template, e.g. `enable_thinking`. */
      readonly templateVariables: Readonly<Record<string, unknown>>;
    }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tokens"; readonly tokens: readonly number[] };

type Sampling = Pick<GenerateRequest, "temperature" | "topP" | "frequencyPenalty" | "presencePenalty">;

/** One choice; the domain runs `n` of them one by one. Sampling options have their defaults. */
export type ChildGenerate = Omit<
  GenerateRequest,
  "input" | "n" | "queueMs" | "reasoningEffort" | "chatTemplateKwargsJson" | "passOn" | keyof Sampling
> &
  Required<Sampling> & { readonly input: ChildInput };

export interface ChildEmbed {
  readonly inputs: readonly (string | readonly number[])[];
}

export interface ProducedTokens {
  readonly promptTokens: number;
  readonly outTokens: number;
  readonly cachedTokens: number;
}

/** An EngineError as it is sent over the channel. */
export interface ChildError {
  readonly code: EngineErrorCode;
  readonly message: string;
  readonly retryable: boolean;
  readonly param: string | null;
  readonly usage: ProducedTokens | null;
}

export type ToChild =
  | { readonly type: "load"; readonly model: ChildModel }
  | { readonly type: "generate"; readonly call: number; readonly request: ChildGenerate }
  | { readonly type: "embed"; readonly call: number; readonly request: ChildEmbed }
  | {
      readonly type: "count";
      readonly call: number;
      readonly input: ChildInput;
      /** Format of the answer, which changes the prompt of a model that thinks. */
      readonly format?: ChildGenerate["format"];
    }
  /** Ends a call early; the child still answers with `failed`, code `aborted` and the usage. */
  | { readonly type: "abort"; readonly call: number }
  /** Heartbeat; answered by the child's event loop. */
  | { readonly type: "ping"; readonly ping: number };

export type FromChild =
  /** Sent once at the start: the channel is open, and the child accepts `load`. */
  | { readonly type: "up" }
  | { readonly type: "loading"; readonly share: number }
  | { readonly type: "loaded"; readonly facts: LoadedFacts }
  | { readonly type: "load_failed"; readonly error: ChildError }
  /** Events of all calls from one batch of engine steps, or from several short ones; in order for each call. */
  | { readonly type: "events"; readonly events: readonly (readonly [call: number, event: GenEvent])[] }
  /** Follows the call's last event. */
  | { readonly type: "done"; readonly call: number }
  | { readonly type: "failed"; readonly call: number; readonly error: ChildError }
  | {
      readonly type: "embedded";
      readonly call: number;
      /** The vectors in input order, joined: each of `embeddingDims` numbers, L2-normalized. */
      readonly vectors: Float32Array;
      readonly promptTokens: number;
    }
  | { readonly type: "counted"; readonly call: number; readonly tokens: number }
  | {
      readonly type: "pong";
      readonly ping: number;
      readonly slotsBusy: number;
      /** Resident memory of the process. */
      readonly memoryBytes: number;
    };

/** Error of an aborted call; default usage: no tokens. */
export function abortedError({ reason }: AbortFlag, usage?: ProducedTokens): EngineError {
  const none = { promptTokens: 0, outTokens: 0, cachedTokens: 0 };
  return new EngineError("aborted", "the call was aborted", { usage: usage ?? none, cause: reason });
}

/** Minimum number of tokens that the texts can have together. */
export function fewestTokens(texts: Iterable<string>, longestTokenBytes: number): number {
  let bytes = 0;
  for (const text of texts) bytes += Buffer.byteLength(text);
  return Math.ceil(bytes / longestTokenBytes);
}
