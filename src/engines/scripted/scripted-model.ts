import { createHash } from "node:crypto";
import { type Message, Role } from "../../../gen/unified/inference/v1/chat_pb.js";
import { version } from "../../contract/version.js";
import type { Clock, IdSource } from "../../domain/call/ports.js";
import {
  type BoundedCapabilities,
  type EmbedRequest,
  type EmbedResult,
  type EmitEvent,
  type Engine,
  EngineError,
  type EngineKind,
  type EngineStats,
  type GenerateInput,
  type GenerateRequest,
  type LoadedModel,
  type ModelSpec,
  type ToolChoiceSpec,
} from "../../domain/engine/engine.js";
import { contextOverflow, inputOverflow } from "../../domain/engine/engine-error.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { CallChoice, type Choice, countTokens, Script, type ScriptedCall, TextChoice } from "./choices.js";
import { failureError, Generation, type Interruption, nextTurn, Pace } from "./generation.js";
import type { ScriptedOptions, ScriptedToolCall } from "./scripted-options.js";

export interface ScriptedEngineDeps {
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** The deterministic engine with canned responses, for tests, demonstrations and benchmarks. Its models need no loading. */
export const scriptedEngine = {
  name: "scripted",
  settings: ["scripted"],
  defaults: { slots: 64, slotsMax: 4096 },
  create: (deps: ScriptedEngineDeps): Engine => ({
    load: async (spec) => new ScriptedModel(deps, spec, spec.options as ScriptedOptions),
  }),
} as const satisfies EngineKind<ScriptedEngineDeps>;

/** Tokens of a step when the answer is not streamed: all but very long texts become one event. */
const joinedTokensPerStep = 4096;
/** Inputs embedded before the event loop runs other work. */
const inputsPerTurn = 64;

class ScriptedModel implements LoadedModel {
  readonly id: string;
  readonly caps: BoundedCapabilities;
  readonly fingerprint: string;
  readonly #deps: ScriptedEngineDeps;
  readonly #slots: number;
  readonly #options: ScriptedOptions;
  readonly #fixedText: Script | null;
  readonly #calls: readonly ScriptedCall[];
  /** Calls that still have to fail. */
  #failuresLeft: number;
  readonly #running = new Set<Pace>();
  readonly #whenIdle: (() => void)[] = [];
  #producedTokens = 0;
  #unloaded = false;

  constructor(deps: ScriptedEngineDeps, spec: ModelSpec, options: ScriptedOptions) {
    this.id = spec.id;
    this.caps = scriptedCapabilities(options, options.context_length ?? spec.contextLength);
    this.fingerprint = fingerprintOf(options);
    this.#deps = deps;
    this.#slots = spec.slots;
    this.#options = options;
    this.#fixedText = options.text === undefined ? null : new Script(options.text, options.tokens ?? null);
    const calls = options.tool_calls ?? (options.tool_call === undefined ? [] : [options.tool_call]);
    this.#calls = calls.map(toScriptedCall);
    this.#failuresLeft = options.fail?.times ?? Number.POSITIVE_INFINITY;
  }

  async countTokens(input: GenerateInput): Promise<number> {
    return promptTokensOf(input);
  }

  /** Takes a slot until the promise is settled. */
  async generate(request: GenerateRequest, signal: AbortFlag, emit: EmitEvent): Promise<void> {
    const pace = this.#enter(signal);
    try {
      await this.#generation(request, pace).run(emit);
    } finally {
      this.#leave(pace);
    }
  }

  async embed(request: EmbedRequest, signal: AbortFlag): Promise<EmbedResult> {
    const pace = this.#enter(signal);
    try {
      return await this.#embed(request, pace);
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
    const cancel = this.#deps.clock.after(graceMs, () => {
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
    const pace = new Pace(this.#deps.clock, signal);
    this.#running.add(pace);
    return pace;
  }

  #leave(pace: Pace): void {
    this.#running.delete(pace);
    if (this.#running.size > 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  #generation(request: GenerateRequest, pace: Pace): Generation {
    const { contextLength } = this.caps;
    const promptTokens = promptTokensOf(request.input);
    if (promptTokens > contextLength) {
      const param = "messages" in request.input ? "messages" : "prompt";
      throw contextOverflow({ contextLength, promptTokens, maxTokens: request.maxTokens, param });
    }
    const { first_token_delay_ms: firstTokenDelayMs = 0, token_delay_ms: tokenDelayMs = 0 } = this.#options;
    return new Generation({
      pace,
      promptTokens,
      contextLength,
      choices: this.#choices(request, contextLength - promptTokens),
      firstTokenDelayMs,
      tokenDelayMs,
      tokensPerStep: request.deltas === "joined" && tokenDelayMs === 0 ? joinedTokensPerStep : 1,
      interruption: this.#interruption(),
      onProduced: (tokens) => {
        this.#producedTokens += tokens;
      },
    });
  }

  #choices(request: GenerateRequest, contextLeft: number): readonly Choice[] {
    const { input, n, stop, logprobs } = request;
    const tokensMax = Math.min(request.maxTokens ?? Number.POSITIVE_INFINITY, contextLeft);
    const choices: Choice[] = [];
    const calls = this.#callsFor(input);
    if (calls.length > 0) {
      const newCallId = (): string => this.#deps.ids.text("call_");
      while (choices.length < n) choices.push(new CallChoice(choices.length, calls, tokensMax, newCallId));
      return choices;
    }
    const script = this.#fixedText ?? new Script(repeatedText(input), this.#options.tokens ?? null);
    const echo = request.echo === true && "prompt" in input ? promptText(input.prompt) : "";
    const reason = this.#options.finish_reason ?? "stop";
    const spec = { script, tokensMax, stop, logprobs, echo, reason } as const;
    while (choices.length < n) choices.push(new TextChoice(choices.length, spec));
    return choices;
  }

  /** The tool calls of an answer; empty: it is a text. */
  #callsFor(input: GenerateInput): readonly ScriptedCall[] {
    if (!("messages" in input)) return [];
    const offered = input.tools.map((tool) => tool.function?.name ?? "");
    const calls = this.#allowedCalls(offered, input.toolChoice);
    return input.parallelToolCalls ? calls : calls.slice(0, 1);
  }

  #allowedCalls(offered: readonly string[], choice: ToolChoiceSpec): readonly ScriptedCall[] {
    const able = this.#calls.filter((call) => offered.includes(call.name));
    switch (choice.mode) {
      case "none":
        return [];
      case "auto":
        return able;
      case "required":
        return able.length > 0 ? able : offered.slice(0, 1).map((name) => toScriptedCall({ name }));
      case "named":
        return [able.find((call) => call.name === choice.name) ?? toScriptedCall(choice)];
    }
  }

  /** The interruption of the call that begins now. */
  #interruption(): Interruption | null {
    const { fail, hang_after_tokens: hangAfter } = this.#options;
    if (fail !== undefined && this.#failuresLeft > 0) {
      this.#failuresLeft--;
      const { after_tokens: afterTokens = 0, code } = fail;
      if (afterTokens <= (hangAfter ?? Number.POSITIVE_INFINITY)) return { afterTokens, code };
    }
    return hangAfter === undefined ? null : { afterTokens: hangAfter, code: null };
  }

  async #embed(request: EmbedRequest, pace: Pace): Promise<EmbedResult> {
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
      if (pace.stopped) throw pace.stopError(usage);
      vectors.push(vectorOf(promptText(input), dimensions));
      if (vectors.length % inputsPerTurn === 0) await nextTurn();
    }
    if (pace.stopped) throw pace.stopError(usage);
    if (interruption !== null && interruption.code !== null) {
      throw failureError(interruption.code, this.caps.contextLength, usage);
    }
    return { vectors, promptTokens };
  }

  #inputTokens(request: EmbedRequest): number {
    const { contextLength } = this.caps;
    let total = 0;
    for (const [index, input] of request.inputs.entries()) {
      const inputTokens = typeof input === "string" ? countTokens(input) : input.length;
      if (inputTokens > contextLength) throw inputOverflow({ contextLength, index, inputTokens });
      total += inputTokens;
    }
    return total;
  }
}

/** Tokens of a prompt: of all its text parts; roles, names and tools do not count. */
function promptTokensOf(input: GenerateInput): number {
  if ("messages" in input) return input.messages.reduce((sum, message) => sum + messageTokens(message), 0);
  return typeof input.prompt === "string" ? countTokens(input.prompt) : input.prompt.length;
}

function messageTokens(message: Message): number {
  return message.content.reduce((sum, { part }) => sum + (part.case === "text" ? countTokens(part.value) : 0), 0);
}

/** The prompt as text; token ids are written as numbers. */
function promptText(prompt: string | readonly number[]): string {
  return typeof prompt === "string" ? prompt : prompt.join(" ");
}

function repeatedText(input: GenerateInput): string {
  if (!("messages" in input)) return promptText(input.prompt);
  const last = input.messages.findLast((message) => message.role === Role.USER);
  return last?.content.map(({ part }) => (part.case === "text" ? part.value : "")).join("") ?? "";
}

function toScriptedCall({ name, arguments: given = {} }: ScriptedToolCall): ScriptedCall {
  const text = typeof given === "string" ? given : JSON.stringify(given);
  return { name, args: new Script(text === "" ? "{}" : text, null) };
}

/** Twelve hex digits of a hash of all that determines the output. */
function fingerprintOf(options: ScriptedOptions): string {
  const text = `scripted ${version} ${JSON.stringify(options)}`;
  return createHash("sha256").update(text).digest("hex").slice(0, 12);
}

/** The features of a scripted model: all that only shape text. `dimensions` makes it an embedding model and nothing else. */
function scriptedCapabilities(
  { dimensions, token_input }: ScriptedOptions,
  contextLength: number,
): BoundedCapabilities {
  const embeds = dimensions !== undefined;
  return {
    chat: !embeds,
    completion: !embeds,
    embeddings: embeds,
    rerank: false,
    contextLength,
    maxOutput: contextLength,
    ...(embeds ? { embeddingDims: dimensions, shortenableEmbeddings: true, maxEmbedTokens: contextLength } : {}),
    tools: "auto",
    toolChoice: true,
    parallelTools: true,
    jsonObject: true,
    jsonSchema: "full",
    grammar: true,
    logprobs: 20,
    echoLogprobs: true,
    logitBias: true,
    penalties: true,
    nativeN: true,
    tokenInput: token_input ?? false,
    vision: false,
    audio: false,
  };
}

/**
 * The unit vector of a text: the same text gives the same vector on every machine. Its first numbers are the same for
 * every length, as in models whose vectors may be shortened.
 */
function vectorOf(text: string, dimensions: number): Float32Array {
  const numbers = new Float64Array(dimensions);
  let state = createHash("sha256").update(text).digest().readUInt32LE(0) || 1;
  let sum = 0;
  for (let i = 0; i < numbers.length; i++) {
    // Pseudo-random numbers from -1 to 1, never 0: xorshift32 on four bytes of the hash.
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    const number = (state >>> 0) / 2 ** 31 - 1 || Number.EPSILON;
    numbers[i] = number;
    sum += number * number;
  }
  const length = Math.sqrt(sum);
  return new Float32Array(numbers.map((number) => number / length));
}
