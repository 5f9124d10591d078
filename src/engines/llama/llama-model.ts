import {
  type Capabilities,
  type EmbedRequest,
  type EmbedResult,
  EngineError,
  type EngineStats,
  type GenEvent,
  type GenerateInput,
  type GenerateRequest,
  type LoadedModel,
  type PromptOptions,
} from "../../domain/engine/engine.js";
import { type AbortFlag, AbortSource } from "../../lib/abort-source.js";
import { CallSlots, type HeldSlot } from "./call-slots.js";
import { templateVariables, toTemplateMessages, toTemplateTools } from "./chat/template-input.js";
import { EventStream } from "./event-stream.js";
import {
  abortedError,
  inputOverflowByLength,
  overflowByLength,
  type TextLimits,
  unloadedError,
} from "./protocol/call-errors.js";
import type { ChildGenerate, ChildInput } from "./protocol/protocol.js";
import { type CallAnswer, type CallDeps, CallProgress, type ChildCall, runOnChild } from "./run-on-child.js";

export interface LlamaModelOptions {
  readonly id: string;
  readonly caps: Capabilities;
  readonly fingerprint: string;
  /** Calls that may run at once. */
  readonly slots: number;
  readonly longestTokenBytes: number;
  /** Tokens of an answer when the request sets no limit; null: as many as fit into the context. */
  readonly answerTokens: number | null;
}

/** A model that runs in a child process, which the supervisor keeps alive. */
export class LlamaModel implements LoadedModel {
  readonly id: string;
  readonly caps: Capabilities;
  readonly fingerprint: string;
  readonly #deps: CallDeps;
  readonly #slots: CallSlots;
  readonly #textLimits: TextLimits;
  readonly #answerTokens: number | null;
  #producedTokens = 0;
  #isUnloaded = false;

  constructor(deps: CallDeps, { id, caps, fingerprint, slots, longestTokenBytes, answerTokens }: LlamaModelOptions) {
    this.id = id;
    this.caps = caps;
    this.fingerprint = fingerprint;
    this.#deps = deps;
    this.#slots = new CallSlots(slots);
    this.#answerTokens = answerTokens;
    this.#textLimits = { contextLength: caps.contextLength, longestTokenBytes };
  }

  async countTokens(input: GenerateInput, signal: AbortFlag, options: PromptOptions = {}): Promise<number | null> {
    if (!this.caps.completion) return null;
    if (this.#isUnloaded) throw unloadedError(this.id);
    const { format } = options;
    const childInput = toChildInput(input, templateVariables(options));
    this.#refuseAboveLength(childInput, null);
    const request = { type: "count", input: childInput, format } as const;
    const answer = await runOnChild(this.#deps, quietCall(request), signal);
    if (answer.type !== "counted") throw unexpectedAnswer(answer);
    return answer.tokens;
  }

  /** Takes a slot, which is free again when the child has ended the call. Waits for one that an aborted call still holds. */
  generate(request: GenerateRequest, signal: AbortFlag): AsyncIterableIterator<GenEvent> {
    if (!this.caps.completion) throw new EngineError("unsupported", `The model '${this.id}' makes embeddings only.`);
    const childRequest = toChildGenerate({ ...request, maxTokens: request.maxTokens ?? this.#answerTokens });
    this.#refuseAboveLength(childRequest.input, request.maxTokens);
    const stop = new AbortSource();
    const follow = (): void => stop.abort(signal.reason);
    if (signal.aborted) follow();
    signal.addEventListener("abort", follow);
    const stream = new EventStream(() => stop.abort("the reader left"));
    const progress = new CallProgress();
    const call: SlotCall = {
      request: { type: "generate", request: childRequest },
      queueMs: request.queueMs,
      progress,
      onEvent(event) {
        const isRepeated = event.type === "accepted" && progress.isAccepted;
        progress.note(event);
        if (!isRepeated) stream.push(event);
      },
    };
    const end = (error: EngineError | null): void => {
      signal.removeEventListener("abort", follow);
      this.#producedTokens += progress.produced.outTokens;
      stream.end(error);
    };
    void this.#runOnSlot(call, stop).then(
      () => end(null),
      (thrown: unknown) => end(toEngineError(thrown)),
    );
    return stream;
  }

  async embed(request: EmbedRequest, signal: AbortFlag): Promise<EmbedResult> {
    const native = this.caps.embeddingDims;
    if (native === undefined) throw new EngineError("unsupported", `The model '${this.id}' makes no embeddings.`);
    const overflow = inputOverflowByLength(request, this.#textLimits);
    if (overflow !== null) throw overflow;
    const call = quietCall({ type: "embed", request: { inputs: request.inputs } }, request.queueMs);
    const answer = await this.#runOnSlot(call, signal);
    if (answer.type !== "embedded") throw unexpectedAnswer(answer);
    const dimensions = Math.min(request.dimensions ?? native, native);
    return { vectors: splitVectors(answer.vectors, native, dimensions), promptTokens: answer.promptTokens };
  }

  stats(): EngineStats {
    return {
      slotsBusy: this.#slots.busy,
      producedTokens: this.#producedTokens,
      restarts: this.#deps.supervisor.restarts,
    };
  }

  async unload(graceMs: number): Promise<void> {
    this.#isUnloaded = true;
    await this.#idle(graceMs);
    await this.#deps.supervisor.stop();
  }

  /** Throws EngineError `context_overflow`. */
  #refuseAboveLength(input: ChildInput, maxTokens: number | null): void {
    const overflow = overflowByLength(input, maxTokens, this.#textLimits);
    if (overflow !== null) throw overflow;
  }

  /** Resolves when no call runs, after `withinMs` at most. */
  #idle(withinMs: number): Promise<void> {
    return new Promise((resolve) => {
      const cancelTimer = this.#deps.clock.after(withinMs, resolve);
      this.#slots.whenIdle(() => {
        cancelTimer();
        resolve();
      });
    });
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

/** A call that needs a slot and has none yet. */
type SlotCall = Omit<ChildCall, "slot">;

/** Of calls that need none. */
const noSlot: HeldSlot = { leave: () => {}, giveBack: () => {} };

/** A call that has an answer, but no events. */
function quietCall(request: ChildCall["request"], queueMs = 0): ChildCall {
  return { request, queueMs, progress: new CallProgress(), onEvent: () => {}, slot: noSlot };
}

function unexpectedAnswer(answer: CallAnswer): EngineError {
  return new EngineError("internal", `the child answered '${answer.type}' to a call of another kind`);
}

function toEngineError(thrown: unknown): EngineError {
  if (thrown instanceof EngineError) return thrown;
  return new EngineError("internal", "the call failed in the server", { cause: thrown });
}

/** What the child gets of a request: no protobuf messages, and nothing that only the server needs. */
export function toChildGenerate(request: GenerateRequest): ChildGenerate {
  const { input, n, queueMs, reasoningEffort, chatTemplateKwargsJson, ...rest } = request;
  return { ...rest, input: toChildInput(input, templateVariables(request)) };
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

/**
 * Vectors that came one behind the other, each of `native` numbers and of length 1. With fewer `dimensions` each is cut
 * and brought back to length 1 (EMB-8).
 */
export function splitVectors(joined: Float32Array, native: number, dimensions: number): Float32Array[] {
  const vectors: Float32Array[] = [];
  for (let from = 0; from < joined.length; from += native) {
    const vector = joined.slice(from, from + dimensions);
    vectors.push(dimensions === native ? vector : normalised(vector));
  }
  return vectors;
}

function normalised(vector: Float32Array): Float32Array {
  const length = Math.hypot(...vector);
  return length === 0 ? vector : vector.map((value) => value / length);
}
