import type { EngineErrorCode, GenEvent, GenerateRequest, ToolChoiceSpec } from "../../../domain/engine/engine.js";

/**
 * What the server and the child process that runs one model say to each other, over the child's IPC channel with
 * structured cloning. The server numbers its calls; every answer names its call. Nothing here is a wire format for
 * others: both sides are always of one version.
 */

/** A model as the child loads it. */
export interface ChildModel {
  /** Catalog id, for messages of errors. */
  readonly id: string;
  /** Absolute path of a verified GGUF file. */
  readonly path: string;
  readonly kind: "chat" | "embedding";
  /** Tokens of prompt and answer together, for each slot. The child lowers it to what the model was trained for. */
  readonly contextLength: number;
  /** Calls that run side by side. Chat: sequences of the context. 1 or more. */
  readonly slots: number;
  /** Threads of the engine. 1 or more. */
  readonly threads: number;
  /** Folder whose `node_modules` holds node-llama-cpp; null: the one that this package depends on. */
  readonly moduleDir: string | null;
  /** Whether that binding may use a GPU. */
  readonly gpu: "auto" | false;
}

/** What the child found out about the model that it loaded. */
export interface LoadedFacts {
  readonly contextLength: number;
  readonly vocabSize: number;
  /** Bytes of the longest text that one token stands for: what bounds the text of a prompt. */
  readonly longestTokenBytes: number;
  /** Length of its vectors; null for a chat model. */
  readonly embeddingDims: number | null;
  /** How tools can be offered: in the template's own way, by our text when a call is forced, or not at all. */
  readonly tools: "none" | "forced-only" | "auto";
  /** Twelve hex digits of a hash of the weights' header, the binding's version and this engine's sampling code. */
  readonly fingerprint: string;
  /** Version of the binding. */
  readonly bindingVersion: string;
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
  /** `arguments` is the parsed JSON, or the text when it is no JSON object. */
  readonly function: { readonly name: string; readonly arguments: unknown };
}

/** A function that may be called. `parameters` is its parsed JSON Schema; a function without one takes no arguments. */
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
      /** Only those that may be called. */
      readonly tools: readonly TemplateTool[];
      readonly toolChoice: ToolChoiceSpec;
      readonly parallelToolCalls: boolean;
      /** Variables for the template, e.g. `enable_thinking`. */
      readonly templateVariables: Readonly<Record<string, unknown>>;
    }
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "tokens"; readonly tokens: readonly number[] };

/** One choice; the domain runs `n` of them one by one. */
export type ChildGenerate = Omit<
  GenerateRequest,
  "input" | "n" | "queueMs" | "reasoningEffort" | "chatTemplateKwargsJson"
> & { readonly input: ChildInput };

export interface ChildEmbed {
  readonly inputs: readonly (string | readonly number[])[];
}

export interface ProducedTokens {
  readonly promptTokens: number;
  readonly outTokens: number;
  readonly cachedTokens: number;
}

/** An EngineError on its way through the channel. */
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
      /** A format can end thoughts that the prompt would open. */
      readonly format?: ChildGenerate["format"];
    }
  /** Ends a call early; it still answers with `failed` and code `aborted`, with what was produced. */
  | { readonly type: "abort"; readonly call: number }
  /** Asks for a heartbeat; answered from the child's event loop. */
  | { readonly type: "ping"; readonly ping: number };

export type FromChild =
  /** Sent once at the start: the channel is open, `load` may come. */
  | { readonly type: "up" }
  | { readonly type: "loading"; readonly share: number }
  | { readonly type: "loaded"; readonly facts: LoadedFacts }
  | { readonly type: "load_failed"; readonly error: ChildError }
  /** What one turn of the engine brought, or several short ones, for all calls together; events of one call are in order. */
  | { readonly type: "events"; readonly events: readonly (readonly [call: number, event: GenEvent])[] }
  /** The call's last event was sent. */
  | { readonly type: "done"; readonly call: number }
  | { readonly type: "failed"; readonly call: number; readonly error: ChildError }
  | {
      readonly type: "embedded";
      readonly call: number;
      /** One vector after the other, each of `embeddingDims` numbers, L2-normalised, in input order. */
      readonly vectors: Float32Array;
      readonly promptTokens: number;
    }
  | { readonly type: "counted"; readonly call: number; readonly tokens: number }
  | { readonly type: "pong"; readonly ping: number; readonly slotsBusy: number; readonly rssBytes: number };
