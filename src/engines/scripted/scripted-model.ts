import { createHash } from "node:crypto";
import { version } from "../../contract/version.js";
import type { Clock, IdSource } from "../../domain/call/ports.js";
import {
  type Capabilities,
  type EmbedRequest,
  type EmbedResult,
  type Engine,
  EngineError,
  type EngineKind,
  type EngineStats,
  type GenEvent,
  type GenerateInput,
  type GenerateRequest,
  type LoadedModel,
  type ModelSpec,
} from "../../domain/engine/engine.js";
import { contextOverflow, inputOverflow } from "../../domain/inference/context-overflow.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { CallChoice, type Choice, TextChoice } from "./choices.js";
import { Generation, type Interruption, nextTurn, Pace } from "./generation.js";
import { promptText, promptTokensOf, Replies } from "./reply.js";
import { Failures, failureError, type ProducedUsage, type ScriptedOptions } from "./scripted-options.js";
import { countTokens, vectorOf } from "./tokens.js";

/** Nobody reads along: a choice's text comes in one event, or in several when it is very long. */
const joinedTokensPerStep = 4096;
/** Inputs embedded before the event loop gets its turn. */
const inputsPerTurn = 64;

/** A model that does what its options say. */
export class ScriptedModel implements LoadedModel {
  readonly id: string;
  readonly caps: Capabilities;
  readonly fingerprint: string;
  readonly #clock: Clock;
  readonly #ids: IdSource;
  readonly #slots: number;
  readonly #options: ScriptedOptions;
  readonly #replies: Replies;
  readonly #failures: Failures;
  readonly #running = new Set<Pace>();
  #producedTokens = 0;
  #unloaded = false;
  readonly #whenIdle: (() => void)[] = [];

  constructor(deps: { readonly clock: Clock; readonly ids: IdSource }, spec: ModelSpec, options: ScriptedOptions) {
    this.id = spec.id;
    this.#clock = deps.clock;
    this.#ids = deps.ids;
    this.#slots = spec.slots;
    this.#options = options;
    this.caps = scriptedCapabilities(options, options.context_length ?? spec.contextLength);
    this.fingerprint = fingerprintOf(options);
    this.#replies = new Replies(options);
    this.#failures = new Failures(options.fail);
  }

  async countTokens(input: GenerateInput): Promise<number> {
    return promptTokensOf(input);
  }

  /** Takes a slot at the call; it is free again when the iteration ends. */
  generate(request: GenerateRequest, signal: AbortFlag): AsyncIterable<GenEvent> {
    const pace = this.#enter(signal);
    try {
      return this.#generation(request, pace, signal);
    } catch (error) {
      this.#leave(pace);
      throw error;
    }
  }

  async embed(request: EmbedRequest, signal: AbortFlag): Promise<EmbedResult> {
    const pace = this.#enter(signal);
    try {
      return await this.#embed(request, pace, signal);
    } finally {
      this.#leave(pace);
    }
  }

  stats(): EngineStats {
    return { slotsBusy: this.#running.size, producedTokens: this.#producedTokens, restarts: 0 };
  }

  async unload(graceMs: number): Promise<void> {
    this.#unloaded = true;
    if (this.#running.size === 0) return;
    const idle = new Promise<void>((resolve) => {
      this.#whenIdle.push(resolve);
    });
    const cancel = this.#clock.after(graceMs, () => {
      for (const pace of this.#running) pace.stop();
    });
    await idle;
    cancel();
  }

  #enter(signal: AbortFlag): Pace {
    if (this.#unloaded) throw new EngineError("model_not_loaded", "the model was unloaded", { retryable: true });
    if (this.#running.size >= this.#slots) {
      throw new EngineError("overloaded", "all slots are busy", { retryable: true });
    }
    const pace = new Pace(this.#clock, signal);
    this.#running.add(pace);
    return pace;
  }

  #leave(pace: Pace): void {
    this.#running.delete(pace);
    if (this.#running.size > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #generation(request: GenerateRequest, pace: Pace, signal: AbortFlag): Generation {
    const { contextLength } = this.caps;
    const promptTokens = promptTokensOf(request.input);
    if (promptTokens > contextLength) throw this.#promptTooLong(request, promptTokens);
    const delayed = (this.#options.token_delay_ms ?? 0) > 0;
    return new Generation(
      {
        promptTokens,
        contextLength,
        choices: this.#choices(request, contextLength - promptTokens),
        firstTokenDelayMs: this.#options.first_token_delay_ms ?? 0,
        tokenDelayMs: this.#options.token_delay_ms ?? 0,
        tokensPerStep: request.deltas === "joined" && !delayed ? joinedTokensPerStep : 1,
        interruption: this.#interruption(),
      },
      {
        pace,
        onEnd: () => this.#leave(pace),
        onProduced: (tokens) => {
          this.#producedTokens += tokens;
        },
        stopError: (usage) => stopError(signal, usage),
      },
    );
  }

  #choices(request: GenerateRequest, contextLeft: number): readonly Choice[] {
    const tokensMax = Math.min(request.maxTokens ?? Number.POSITIVE_INFINITY, contextLeft);
    const reply = this.#replies.to(request.input);
    const echo = request.echo === true && "prompt" in request.input ? promptText(request.input.prompt) : "";
    const choice = (index: number): Choice =>
      reply.type === "calls"
        ? new CallChoice(index, reply.calls, tokensMax, () => this.#ids.text("call_"))
        : new TextChoice({
            index,
            script: reply.script,
            tokensMax,
            stop: request.stop,
            logprobs: request.logprobs,
            echo,
            reason: this.#options.finish_reason ?? "stop",
          });
    const choices = [choice(0)];
    for (let index = 1; index < request.n; index++) choices.push(choice(index));
    return choices;
  }

  /** What the options make happen to the call that begins now. */
  #interruption(): Interruption | null {
    const failure = this.#failures.next();
    const hangAfter = this.#options.hang_after_tokens ?? Number.POSITIVE_INFINITY;
    if (failure !== null && failure.afterTokens <= hangAfter) return failure;
    return hangAfter === Number.POSITIVE_INFINITY ? null : { afterTokens: hangAfter, code: null };
  }

  #promptTooLong(request: GenerateRequest, promptTokens: number): EngineError {
    return contextOverflow({
      contextLength: this.caps.contextLength,
      promptTokens,
      maxTokens: request.maxTokens,
      param: "messages" in request.input ? "messages" : "prompt",
    });
  }

  async #embed(request: EmbedRequest, pace: Pace, signal: AbortFlag): Promise<EmbedResult> {
    const native = this.caps.embeddingDims;
    if (native === undefined) throw new EngineError("unsupported", `The model '${this.id}' makes no embeddings.`);
    const dimensions = Math.min(request.dimensions ?? native, native);
    const promptTokens = this.#inputTokens(request);
    const usage = { promptTokens, outTokens: 0, cachedTokens: 0 };
    const interruption = this.#interruption();
    await pace.wait(this.#options.first_token_delay_ms ?? 0);
    if (interruption?.code === null) await pace.wait(Number.POSITIVE_INFINITY);
    const vectors: Float32Array[] = [];
    for (const input of request.inputs) {
      if (pace.stopped) throw stopError(signal, usage);
      vectors.push(vectorOf(promptText(input), native, dimensions));
      if (vectors.length % inputsPerTurn === 0) await nextTurn();
    }
    if (pace.stopped) throw stopError(signal, usage);
    if (interruption !== null && interruption.code !== null) {
      throw failureError(interruption.code, this.caps.contextLength, usage);
    }
    return { vectors, promptTokens };
  }

  #inputTokens(request: EmbedRequest): number {
    let total = 0;
    for (const [index, input] of request.inputs.entries()) {
      const inputTokens = typeof input === "string" ? countTokens(input) : input.length;
      const { contextLength } = this.caps;
      if (inputTokens > contextLength) throw inputOverflow({ contextLength, index, inputTokens });
      total += inputTokens;
    }
    return total;
  }
}

/** Twelve hex digits of a hash of all that determines the output. */
function fingerprintOf(options: ScriptedOptions): string {
  return createHash("sha256")
    .update(`scripted ${version} ${JSON.stringify(options)}`)
    .digest("hex")
    .slice(0, 12);
}

function stopError(signal: AbortFlag, usage: ProducedUsage): EngineError {
  if (signal.aborted) return new EngineError("aborted", "the call was aborted", { usage, cause: signal.reason });
  return new EngineError("engine_restarted", "the model was unloaded", { retryable: true, usage });
}

interface ScriptedEngineDeps {
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** The deterministic engine with canned responses, for tests, demonstrations and benchmarks. */
export const scriptedEngine = {
  name: "scripted",
  settings: ["scripted"],
  defaults: { slots: 64, slotsMax: 4096 },
  create: createScriptedEngine,
} as const satisfies EngineKind<ScriptedEngineDeps>;

/** Its models need no loading. */
export function createScriptedEngine(deps: ScriptedEngineDeps): Engine {
  return {
    kind: "scripted",
    probe: async () => ({ up: true, version }),
    load: async (spec) => new ScriptedModel(deps, spec, spec.options as ScriptedOptions),
  };
}

/**
 * What a scripted model says that it can do: everything that only shapes text, because its text is fixed anyway.
 * `dimensions` makes it an embedding model and nothing else.
 */
export function scriptedCapabilities(options: ScriptedOptions, contextLength: number): Capabilities {
  const embeds = options.dimensions !== undefined;
  return {
    chat: !embeds,
    completion: !embeds,
    embeddings: embeds,
    contextLength,
    maxOutput: contextLength,
    ...(options.dimensions === undefined
      ? {}
      : { embeddingDims: options.dimensions, shortenableEmbeddings: true, maxEmbedTokens: contextLength }),
    tools: "auto",
    parallelTools: true,
    jsonSchema: "full",
    grammar: true,
    logprobs: 20,
    echoLogprobs: true,
    logitBias: true,
    penalties: true,
    seed: "exact",
    nativeN: true,
    prefixCache: false,
    exactUsage: true,
    tokenInput: options.token_input ?? false,
    infill: false,
    vision: false,
  };
}
