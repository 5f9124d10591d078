import {
  type BoundedCapabilities,
  type EmbedRequest,
  type EmbedResult,
  type EmitEvent,
  EngineError,
  type EngineStats,
  type GenEvent,
  type GenerateInput,
  type GenerateRequest,
  type LoadedModel,
  type PromptOptions,
  type RequestDefaults,
  type RerankResult,
} from "../../domain/engine/engine.js";
import { contextOverflow, inputOverflow } from "../../domain/engine/engine-error.js";
import { type AbortFlag, AbortSource } from "../../lib/abort-source.js";
import { templateVariables, toTemplateMessages, toTemplateTools } from "./chat/template-input.js";
import { abortedError, type ChildGenerate, type ChildInput, fewestTokens } from "./protocol/protocol.js";
import { type CallAnswer, type CallDeps, CallProgress, CallSlots, type ChildCall, runOnChild } from "./run-on-child.js";
import { unloadedError } from "./supervisor.js";

export interface LlamaModelOptions {
  readonly id: string;
  readonly caps: BoundedCapabilities;
  readonly fingerprint: string;
  /** Maximum number of concurrent calls. */
  readonly slots: number;
  readonly longestTokenBytes: number;
  /** See `LoadedModel.defaults`. */
  readonly defaults?: RequestDefaults;
}

/** A model that runs in a child process, which the supervisor keeps alive. */
export class LlamaModel implements LoadedModel {
  readonly id: string;
  readonly caps: BoundedCapabilities;
  readonly fingerprint: string;
  readonly defaults?: RequestDefaults;
  readonly #deps: CallDeps;
  readonly #options: LlamaModelOptions;
  readonly #slots: CallSlots;
  #producedTokens = 0;
  #isUnloaded = false;

  constructor(deps: CallDeps, options: LlamaModelOptions) {
    this.id = options.id;
    this.caps = options.caps;
    this.fingerprint = options.fingerprint;
    if (options.defaults !== undefined) this.defaults = options.defaults;
    this.#deps = deps;
    this.#options = options;
    this.#slots = new CallSlots(options.slots);
  }

  async countTokens(input: GenerateInput, signal: AbortFlag, options: PromptOptions = {}): Promise<number | null> {
    if (!this.caps.completion) return null;
    if (this.#isUnloaded) throw unloadedError(this.id);
    const childInput = toChildInput(input, templateVariables(options));
    this.#rejectLongPrompt(childInput, null);
    const call = callWithoutEvents({ type: "count", input: childInput, format: options.format });
    const answer = await runOnChild(this.#deps, { ...call, slot: noSlot }, signal);
    if (answer.type !== "counted") throw unexpectedAnswer(answer);
    return answer.tokens;
  }

  /** Runs a call in a slot, which is free again when the child has ended the call. May wait for the slot of an aborted call. */
  async generate(request: GenerateRequest, signal: AbortFlag, emit: EmitEvent): Promise<void> {
    if (!this.caps.completion) throw new EngineError("unsupported", `The model '${this.id}' only computes embeddings.`);
    const childRequest = toChildGenerate(request);
    this.#rejectLongPrompt(childRequest.input, request.maxTokens);
    const stop = new AbortSource();
    const follow = (): void => stop.abort(signal.reason);
    if (signal.aborted) follow();
    signal.addEventListener("abort", follow);
    const events = new EventQueue(emit, () => stop.abort("the reader failed"));
    const progress = new CallProgress();
    const call: SlotCall = {
      request: { type: "generate", request: childRequest },
      queueMs: request.queueMs,
      progress,
      onEvent(event) {
        const isRepeated = event.type === "accepted" && progress.isAccepted;
        progress.note(event);
        if (!isRepeated) events.push(event);
      },
    };
    try {
      await this.#runOnSlot(call, stop);
    } catch (cause) {
      if (events.failure !== null) throw events.failure.thrown;
      if (cause instanceof EngineError) throw cause;
      throw new EngineError("internal", "the call failed in the server", { cause });
    } finally {
      signal.removeEventListener("abort", follow);
      this.#producedTokens += progress.produced.outTokens;
      await events.drained;
    }
    if (events.failure !== null) throw events.failure.thrown;
  }

  async embed({ inputs, queueMs, ...request }: EmbedRequest, signal: AbortFlag): Promise<EmbedResult> {
    const native = this.caps.embeddingDims;
    if (native === undefined) throw new EngineError("unsupported", `The model '${this.id}' computes no embeddings.`);
    const { contextLength } = this.caps;
    for (const [index, input] of inputs.entries()) {
      const inputTokens = typeof input === "string" ? fewestTokens([input], this.#options.longestTokenBytes) : 0;
      if (inputTokens > contextLength + 1) {
        throw inputOverflow({ contextLength, param: `input[${index}]`, inputTokens, isAtLeast: true });
      }
    }
    const call = callWithoutEvents({ type: "embed", request: { inputs } }, queueMs);
    const answer = await this.#runOnSlot(call, signal);
    if (answer.type !== "embedded") throw unexpectedAnswer(answer);
    const dimensions = Math.min(request.dimensions ?? native, native);
    return { vectors: splitVectors(answer.vectors, native, dimensions), promptTokens: answer.promptTokens };
  }

  async rerank(): Promise<RerankResult> {
    throw new EngineError("unsupported", `The embedded engine of the model '${this.id}' does not support reranking.`);
  }

  stats(): EngineStats {
    const { restarts, memoryBytes } = this.#deps.supervisor;
    return { slotsBusy: this.#slots.busy, producedTokens: this.#producedTokens, restarts, memoryBytes };
  }

  /** Waits for running calls, `graceMs` at most. */
  async unload(graceMs: number): Promise<void> {
    this.#isUnloaded = true;
    await new Promise<void>((resolve) => {
      const cancelTimer = this.#deps.clock.after(graceMs, resolve);
      this.#slots.whenIdle(() => {
        cancelTimer();
        resolve();
      });
    });
    await this.#deps.supervisor.stop();
  }

  /**
   * Throws EngineError `context_overflow` for a prompt that cannot fit into the context whatever its tokens are, by its
   * length alone: tokenizing it would only keep the child busy.
   */
  #rejectLongPrompt(input: ChildInput, maxTokens: number | null): void {
    const { contextLength } = this.caps;
    const isAtLeast = input.type !== "tokens";
    const promptTokens = isAtLeast
      ? fewestTokens(textsOf(input), this.#options.longestTokenBytes)
      : input.tokens.length;
    if (promptTokens <= (isAtLeast ? contextLength + 1 : contextLength)) return;
    const param = input.type === "chat" ? "messages" : "prompt";
    throw contextOverflow({ contextLength, promptTokens, isAtLeast, maxTokens, param });
  }

  async #runOnSlot(call: SlotCall, signal: AbortFlag): Promise<CallAnswer> {
    if (this.#isUnloaded) throw unloadedError(this.id);
    if (signal.aborted) throw abortedError(signal);
    const { clock } = this.#deps;
    const sinceMs = clock.monotonic();
    const taken = this.#slots.take(signal);
    const slot = taken instanceof Promise ? await taken : taken;
    const queueMs = call.queueMs + clock.monotonic() - sinceMs;
    return runOnChild(this.#deps, { ...call, queueMs, slot }, signal);
  }
}

/** A call that has no slot yet. */
type SlotCall = Omit<ChildCall, "slot">;

const noSlot: ChildCall["slot"] = { expectRelease: () => {}, release: () => {} };

function callWithoutEvents(request: ChildCall["request"], queueMs = 0): SlotCall {
  return { request, queueMs, progress: new CallProgress(), onEvent: () => {} };
}

function unexpectedAnswer({ type }: CallAnswer): EngineError {
  return new EngineError("internal", `the child answered '${type}' to a call of another kind`);
}

/** The child's part of a request: no protobuf messages, and no fields that only the server reads. */
export function toChildGenerate(request: GenerateRequest): ChildGenerate {
  const { input, n, queueMs, reasoningEffort, chatTemplateKwargsJson, passOn, ...rest } = request;
  const { temperature = 1, topP = 1, frequencyPenalty = 0, presencePenalty = 0 } = request;
  const sampling = { temperature, topP, frequencyPenalty, presencePenalty };
  return { ...rest, ...sampling, input: toChildInput(input, templateVariables(request)) };
}

export function toChildInput(input: GenerateInput, variables: Readonly<Record<string, unknown>>): ChildInput {
  if ("messages" in input) {
    return {
      type: "chat",
      messages: toTemplateMessages(input.messages),
      tools: toTemplateTools(input.tools),
      toolChoice: input.toolChoice,
      parallelToolCalls: input.parallelToolCalls,
      templateVariables: variables,
    };
  }
  const { prompt } = input;
  return typeof prompt === "string" ? { type: "text", text: prompt } : { type: "tokens", tokens: prompt };
}

function textsOf(input: Exclude<ChildInput, { type: "tokens" }>): readonly string[] {
  return input.type === "text" ? [input.text] : input.messages.map(({ content }) => content);
}

/** Splits joined vectors of `native` numbers and length 1. With fewer `dimensions` each is cut and normalized (EMB-8). */
function splitVectors(joined: Float32Array, native: number, dimensions: number): Float32Array[] {
  const vectors: Float32Array[] = [];
  for (let from = 0; from < joined.length; from += native) {
    const vector = joined.slice(from, from + dimensions);
    const length = dimensions === native ? 1 : Math.hypot(...vector);
    vectors.push(length === 0 || length === 1 ? vector : vector.map((value) => value / length));
  }
  return vectors;
}

/**
 * Queue of the events of a call between the child, which does not wait for a slow reader, and the reader. Bounded by the
 * maximum length of the answer.
 */
export class EventQueue {
  /** Resolves when the reader has taken all events so far; null: it has taken them. Never rejects. */
  drained: Promise<void> | null = null;
  /** The error that the reader threw; later events are dropped. */
  failure: { readonly thrown: unknown } | null = null;
  readonly #emit: EmitEvent;
  readonly #onFailure: () => void;
  #waiting: GenEvent[] = [];

  /** `onFailure` is called when the reader has thrown. */
  constructor(emit: EmitEvent, onFailure: () => void) {
    this.#emit = emit;
    this.#onFailure = onFailure;
  }

  push(event: GenEvent): void {
    if (this.failure !== null) return;
    if (this.drained !== null) {
      this.#waiting.push(event);
      return;
    }
    try {
      const taken = this.#emit(event);
      if (taken !== undefined) this.drained = this.#drain(taken);
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  async #drain(taken: Promise<void>): Promise<void> {
    try {
      await taken;
      while (this.#waiting.length > 0) {
        const events = this.#waiting;
        this.#waiting = [];
        for (const event of events) await this.#emit(event);
      }
    } catch (thrown) {
      this.#fail(thrown);
    }
    this.drained = null;
  }

  #fail(thrown: unknown): void {
    this.failure = { thrown };
    this.#waiting = [];
    this.#onFailure();
  }
}
