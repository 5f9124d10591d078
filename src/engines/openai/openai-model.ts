import type { Clock, IdSource } from "../../domain/call/ports.js";
import {
  type Capabilities,
  type EmbedRequest,
  type EmbedResult,
  type EmitEvent,
  EngineError,
  type EngineStats,
  type GenerateRequest,
  type LoadedModel,
  type RerankRequest,
  type RerankResult,
} from "../../domain/engine/engine.js";
import type { MessagesFacts, UpstreamOutcome } from "../../domain/engine/upstream.js";
import type { AbortFlag } from "../../lib/abort-source.js";
import { MemberList, type Placed } from "../../lib/collections.js";
import { ChunkForms } from "./answer/chunk-forms.js";
import { embeddingBytesMax, readEmbeddings, readScores, rerankBytesMax } from "./answer/input-answers.js";
import { readWhole } from "./connection/body-collector.js";
import { ModelKeys, type UpstreamKey } from "./connection/key-ring.js";
import { type Upstream, type UpstreamCall, withKeys } from "./connection/upstream.js";
import { GenerateCall } from "./generate-call.js";
import { generationForm } from "./generation-form.js";
import { estimatedInputTokens, estimatedPromptTokens, longestInput, promptText } from "./prompt-text.js";
import { type BodySettings, embedBody, rerankBody, withinContext } from "./protocol/request-body.js";
import { engineErrorOf, type FailedRequest, InvalidResponse } from "./protocol/upstream-failure.js";

export interface OpenAiModelDeps {
  readonly clock: Clock;
  readonly ids: Pick<IdSource, "text">;
  readonly upstream: Upstream;
  /** Called once per attempt; `firstByteMs` null: the answer did not begin. */
  readonly onOutcome: (outcome: UpstreamOutcome, firstByteMs: number | null) => void;
  /** See `LoadedModel.isReachable`. */
  readonly isReachable: (signal: AbortFlag) => Promise<boolean>;
  /** Called once, when the model is unloaded. */
  readonly onUnloaded: () => Promise<void>;
}

export interface OpenAiModelSpec {
  /** Id of the model in the catalog. */
  readonly id: string;
  readonly slots: number;
  readonly body: BodySettings;
  // Discovery may replace these values later.
  caps: Capabilities;
  messages: MessagesFacts | null;
}

/** Characters of the prompt whose words are removed from log lines. */
const scrubbedCharsMax = 65_536;

/** A model of an upstream server. */
export class OpenAiModel implements LoadedModel {
  readonly id: string;
  /** The fingerprint in the server's last answer; empty before the first. */
  fingerprint = "";
  readonly #deps: OpenAiModelDeps;
  readonly #spec: OpenAiModelSpec;
  readonly #keys: ModelKeys;
  readonly #forms = new ChunkForms();
  /** The running calls, each with a function that stops it. */
  readonly #running = new MemberList<Stoppable>();
  #whenIdle: (() => void) | null = null;
  #producedTokens = 0;
  #isUnloaded = false;

  constructor(deps: OpenAiModelDeps, spec: OpenAiModelSpec) {
    this.id = spec.id;
    this.#deps = deps;
    this.#spec = spec;
    this.#keys = new ModelKeys(deps.clock, deps.upstream.keys);
  }

  get caps(): Capabilities {
    return this.#spec.caps;
  }

  async generate(request: GenerateRequest, signal: AbortFlag, emit: EmitEvent): Promise<void> {
    const { body: settings, messages } = this.#spec;
    const form = generationForm(
      withinContext(request, this.caps.contextLength),
      this.#deps.upstream.profile.api,
      settings,
      messages,
    );
    const { operation, body, headers, errors } = form;
    await this.#run(signal, request.cacheKey, (key, running) => {
      const failed = this.#failedRequest(form.promptParam, () => promptText(request.input, scrubbedCharsMax));
      const call = new GenerateCall({
        clock: this.#deps.clock,
        parser: (emitted) => form.parser(this.#answerOptions(request), emitted),
        request: errors === undefined ? failed : { ...failed, forms: errors },
        emit,
      });
      running.stop = (error) => call.stop(error);
      const { model } = this.#spec.body;
      const done = call.run((reader) =>
        this.#deps.upstream.send({ operation, model, body, headers, key, requestId: request.requestId }, reader),
      );
      const ended = (): void => {
        this.#producedTokens += call.usage.outTokens;
        this.fingerprint = call.fingerprint;
      };
      return { done, ended, firstByteMs: () => call.firstByteMs };
    });
  }

  async embed(request: EmbedRequest, signal: AbortFlag): Promise<EmbedResult> {
    const { inputs } = request;
    const body = embedBody(request, this.#spec.body);
    const of = { param: `input[${longestInput(inputs)}]`, text: () => inputs.join("\n") };
    return await this.#whole({ operation: "embeddings", body, bytesMax: embeddingBytesMax }, of, signal, (answer) =>
      readEmbeddings(answer, request, () => estimatedInputTokens(inputs)),
    );
  }

  async rerank(request: RerankRequest, signal: AbortFlag): Promise<RerankResult> {
    if (!this.caps.rerank) throw new EngineError("unsupported", `The model '${this.id}' does not rerank.`);
    const { query, documents } = request;
    const body = rerankBody(request, this.#spec.body);
    const of = { param: `documents[${longestInput(documents)}]`, text: () => [query, ...documents].join("\n") };
    return await this.#whole({ operation: "rerank", body, bytesMax: rerankBytesMax }, of, signal, (answer) =>
      readScores(answer, request, () => estimatedInputTokens([query, ...documents])),
    );
  }

  /** Runs a request whose answer is read as a whole. `of`: the request field and its texts, for errors about them. */
  #whole<T>(
    { operation, body, bytesMax }: Pick<UpstreamCall, "operation" | "body"> & { readonly bytesMax: number },
    of: { readonly param: string; readonly text: () => string },
    signal: AbortFlag,
    read: (answer: string) => T,
  ): Promise<T> {
    return this.#run(signal, "", (key, running) => {
      const call: UpstreamCall = { operation, body, model: this.#spec.body.model, key, requestId: null };
      const exchange = readWhole((reader) => this.#deps.upstream.send(call, reader), bytesMax, running.signal);
      running.stop = exchange.stop;
      const done = exchange.result.then((answer) => {
        if (answer.status === 200) return read(answer.body);
        const failed = this.#failedRequest(of.param, () => of.text().slice(0, scrubbedCharsMax));
        throw engineErrorOf(answer, failed, this.#deps.clock.now());
      });
      return { done, ended: () => {}, firstByteMs: exchange.firstByteMs };
    });
  }

  stats(): EngineStats {
    return { slotsBusy: this.#running.size, producedTokens: this.#producedTokens, restarts: 0 };
  }

  get hasReplicas(): boolean {
    return this.#deps.upstream.profile.hasReplicas;
  }

  get heldForMs(): number {
    return this.#keys.heldForMs;
  }

  isReachable(signal: AbortFlag): Promise<boolean> {
    return this.#deps.isReachable(signal);
  }

  async unload(graceMs: number): Promise<void> {
    if (this.#isUnloaded) return;
    this.#isUnloaded = true;
    if (this.#running.size > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
      const cancel = this.#deps.clock.after(graceMs, () => {
        for (const running of this.#running.all()) {
          running.stop(new EngineError("engine_restarted", "the model was unloaded", { retryable: true }));
        }
      });
      await idle;
      cancel();
    }
    await this.#deps.onUnloaded();
  }

  /** Runs attempts in a slot and reports the outcome of each. */
  async #run<T>(
    signal: AbortFlag,
    tenant: string,
    attempt: (key: UpstreamKey, running: Stoppable) => Attempt<T>,
  ): Promise<T> {
    if (this.#isUnloaded) throw new EngineError("model_not_loaded", "the model was unloaded", { retryable: true });
    if (signal.aborted) throw abortedBefore();
    if (this.#running.size >= this.#spec.slots) {
      throw new EngineError("overloaded", "all slots are busy", { retryable: true });
    }
    const running: Stoppable = { signal, stop: () => {}, place: 0 };
    const onAbort = (): void => running.stop(new EngineError("aborted", "the request was aborted"));
    signal.addEventListener("abort", onAbort);
    this.#running.add(running);
    try {
      return await withKeys(this.#keys, tenant, async (key) => {
        if (signal.aborted) throw abortedBefore();
        const { done, ended, firstByteMs } = attempt(key, running);
        try {
          const result = await done;
          this.#deps.onOutcome("success", firstByteMs());
          return result;
        } catch (error) {
          this.#deps.onOutcome(outcomeOf(error), firstByteMs());
          throw error;
        } finally {
          ended();
        }
      });
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.#running.delete(running);
      if (this.#running.size === 0) this.#whenIdle?.();
    }
  }

  #answerOptions(request: GenerateRequest) {
    const { input } = request;
    const isChat = "messages" in input;
    const isEchoed = request.echo === true && !this.#spec.body.dialect.echo;
    const isEchoOnly = isEchoed && request.maxTokens === 0;
    return {
      choices: request.n,
      logprobs: isEchoOnly ? undefined : request.logprobs,
      isEchoedByServer: request.echo === true && !isEchoed,
      isForced: isChat && input.tools.length > 0 && ["required", "named"].includes(input.toolChoice.mode),
      parallelToolCalls: !isChat || input.parallelToolCalls,
      joins: request.deltas === "joined",
      forms: this.#forms,
      fingerprint: this.fingerprint,
      isEchoOnly,
      echo: isEchoed && !isChat && typeof input.prompt === "string" ? input.prompt : "",
      estimatedPromptTokens: () => estimatedPromptTokens(input),
      newCallId: () => this.#deps.ids.text("call_"),
    };
  }

  #failedRequest(promptParam: string, prompt: () => string): FailedRequest {
    const { contextLength } = this.#spec.caps;
    return { promptParam, contextLength, keys: this.#deps.upstream.keys.texts, promptText: prompt };
  }
}

interface Stoppable extends Placed {
  readonly signal: AbortFlag;
  stop(error: EngineError): void;
}

interface Attempt<T> {
  readonly done: Promise<T>;
  /** Called once after `done` is settled, before the request ends. */
  readonly ended: () => void;
  readonly firstByteMs: () => number | null;
}

function abortedBefore(): EngineError {
  return new EngineError("aborted", "the request was aborted", {
    usage: { promptTokens: 0, outTokens: 0, cachedTokens: 0 },
  });
}

function outcomeOf(error: unknown): UpstreamOutcome {
  if (error instanceof InvalidResponse) return "invalid_response";
  if (!(error instanceof EngineError)) return "cancelled";
  switch (error.code) {
    case "aborted":
    case "engine_restarted":
      return "cancelled";
    case "timeout":
    case "rate_limited":
    case "unauthorized":
      return error.code;
    case "forbidden":
      return "unauthorized";
    case "bad_input":
    case "context_overflow":
    case "unsupported":
      return "success";
    default:
      return "upstream_error";
  }
}
