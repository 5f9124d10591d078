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
  type RerankRequest,
  type RerankResult,
  type ToolChoiceSpec,
} from "../../domain/engine/engine.js";
import { contextOverflow, inputOverflow } from "../../domain/engine/engine-error.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { MemberList } from "../../lib/collections.js";
import { CallChoice, type Choice, countTokens, Script, type ScriptedCall, TextChoice } from "./choices.js";
import { failureError, Generation, type Interruption, nextTurn, Pace, promptTokensOf } from "./generation.js";
import { type ScriptedOptions, type ScriptedToolCall, scriptedCapabilities } from "./scripted-options.js";
import { sharedWords, vectorOf, wordsOf } from "./text-results.js";

export interface ScriptedEngineDeps {
  readonly clock: Clock;
  readonly ids: IdSource;
}

/** The deterministic engine with canned responses, for tests, demonstrations and benchmarks. Its models need no loading. */
export const scriptedEngine = {
  name: "scripted",
  settings: ["scripted"],
  defaults: { slots: 64, slotsMax: 65_536 },
  create: (deps: ScriptedEngineDeps): Engine => ({
    load: async (spec) => new ScriptedModel(deps, spec, spec.options as ScriptedOptions),
  }),
} as const satisfies EngineKind<ScriptedEngineDeps>;

/** Maximum tokens of a step if the answer is not streamed: all but very long texts become one event. */
const joinedTokensPerStep = 4096;
/** Number of texts that are read before the event loop runs other work. */
const textsPerTurn = 64;

class ScriptedModel implements LoadedModel {
  readonly id: string;
  readonly caps: BoundedCapabilities;
  readonly fingerprint: string;
  readonly #deps: ScriptedEngineDeps;
  readonly #slots: number;
  readonly #options: ScriptedOptions;
  readonly #fixedText: Script | null;
  readonly #calls: readonly ScriptedCall[];
  /** Tool calls of each answer of an agent's loop; empty: `#calls` are used instead. */
  readonly #rounds: readonly (readonly ScriptedCall[])[];
  /** Number of requests that still have to fail. */
  #failuresLeft: number;
  readonly #running = new MemberList<Pace>();
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
    this.#rounds = (options.tool_rounds ?? []).map((round) => round.map(toScriptedCall));
    this.#failuresLeft = options.fail?.times ?? Number.POSITIVE_INFINITY;
  }

  async countTokens(input: GenerateInput): Promise<number> {
    return await promptTokensOf(input);
  }

  /** Generates an answer. It takes a slot until the promise is settled. */
  generate(request: GenerateRequest, signal: AbortFlag, emit: EmitEvent): Promise<void> {
    return this.#onSlot(signal, (pace) => {
      const counted = promptTokensOf(request.input);
      const run = (promptTokens: number): Promise<void> => this.#generation(request, pace, promptTokens).run(emit);
      return typeof counted === "number" ? run(counted) : counted.then(run);
    });
  }

  embed(request: EmbedRequest, signal: AbortFlag): Promise<EmbedResult> {
    return this.#onSlot(signal, (pace) => this.#embed(request, pace));
  }

  rerank(request: RerankRequest, signal: AbortFlag): Promise<RerankResult> {
    return this.#onSlot(signal, (pace) => this.#rerank(request, pace));
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
      for (const pace of this.#running.all()) pace.stop();
    });
    await idle;
    cancel();
  }

  async #onSlot<R>(signal: AbortFlag, work: (pace: Pace) => Promise<R>): Promise<R> {
    const pace = this.#enter(signal);
    try {
      return await work(pace);
    } finally {
      this.#leave(pace);
    }
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

  #generation(request: GenerateRequest, pace: Pace, promptTokens: number): Generation {
    const { contextLength } = this.caps;
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
    const calls = this.#allowedCalls(input.messages, offered, input.toolChoice);
    return input.parallelToolCalls ? calls : calls.slice(0, 1);
  }

  #allowedCalls(
    messages: readonly Message[],
    offered: readonly string[],
    choice: ToolChoiceSpec,
  ): readonly ScriptedCall[] {
    const hasRounds = this.#rounds.length > 0;
    const round = hasRounds ? (this.#rounds[callingAnswers(messages)] ?? []) : this.#calls;
    const able = round.filter((call) => offered.includes(call.name));
    switch (choice.mode) {
      case "none":
        return [];
      case "auto":
        return !hasRounds && messages.at(-1)?.role === Role.TOOL ? [] : able;
      case "required":
        return able.length > 0 ? able : offered.slice(0, 1).map((name) => toScriptedCall({ name }));
      case "named":
        return [able.find((call) => call.name === choice.name) ?? toScriptedCall(choice)];
    }
  }

  /** The interruption of a request that begins now; null: none. */
  #interruption(): Interruption | null {
    const { fail, hang_after_tokens: hangAfter } = this.#options;
    if (fail !== undefined && this.#failuresLeft > 0) {
      this.#failuresLeft--;
      const { after_tokens: afterTokens = 0, code } = fail;
      if (afterTokens <= (hangAfter ?? Number.POSITIVE_INFINITY)) return { afterTokens, code };
    }
    return hangAfter === undefined ? null : { afterTokens: hangAfter, code: null };
  }

  async #embed({ inputs, dimensions }: EmbedRequest, pace: Pace): Promise<EmbedResult> {
    const native = this.caps.embeddingDims;
    if (native === undefined) throw new EngineError("unsupported", `The model '${this.id}' computes no embeddings.`);
    const promptTokens = this.#tokensOfEach(inputs, "input");
    const length = Math.min(dimensions ?? native, native);
    const vectors = await this.#readEach(inputs, promptTokens, pace, (input) => vectorOf(promptText(input), length));
    return { vectors, promptTokens };
  }

  /** Scores the documents. The query's tokens count once, although it must fit into the context with each document. */
  async #rerank({ query, documents }: RerankRequest, pace: Pace): Promise<RerankResult> {
    if (!this.caps.rerank) throw new EngineError("unsupported", `The model '${this.id}' does not rerank.`);
    const queryTokens = countTokens(query);
    const promptTokens = queryTokens + this.#tokensOfEach(documents, "documents", queryTokens);
    const wanted = wordsOf(query);
    const scores = await this.#readEach(documents, promptTokens, pace, (document) => sharedWords(wanted, document));
    return { scores, promptTokens };
  }

  /** Computes one result per text, with the waits and failures of the script. */
  async #readEach<T, R>(
    texts: readonly T[],
    promptTokens: number,
    pace: Pace,
    read: (text: T) => R,
  ): Promise<readonly R[]> {
    const usage = { promptTokens, outTokens: 0, cachedTokens: 0 };
    const interruption = this.#interruption();
    await pace.wait(this.#options.first_token_delay_ms ?? 0);
    if (interruption?.code === null) await pace.wait(Number.POSITIVE_INFINITY);
    const results: R[] = [];
    for (const text of texts) {
      if (pace.stopped) throw pace.stopError(usage);
      results.push(read(text));
      if (results.length % textsPerTurn === 0) await nextTurn();
    }
    if (pace.stopped) throw pace.stopError(usage);
    if (interruption !== null && interruption.code !== null) {
      throw failureError(interruption.code, this.caps.contextLength, usage);
    }
    return results;
  }

  /** Number of tokens in all items of a field; each item must fit into the context together with `queryTokens`. */
  #tokensOfEach(items: EmbedRequest["inputs"], field: string, queryTokens = 0): number {
    const { contextLength } = this.caps;
    let total = 0;
    for (const [index, item] of items.entries()) {
      const tokens = typeof item === "string" ? countTokens(item) : item.length;
      const inputTokens = queryTokens + tokens;
      const param = `${field}[${index}]`;
      const what = queryTokens > 0 ? `${param} together with 'query'` : param;
      if (inputTokens > contextLength) throw inputOverflow({ contextLength, param, what, inputTokens });
      total += tokens;
    }
    return total;
  }
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

/** Number of the conversation's answers with tool calls. */
function callingAnswers(messages: readonly Message[]): number {
  return messages.reduce((sum, { toolCalls }) => sum + (toolCalls.length > 0 ? 1 : 0), 0);
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
