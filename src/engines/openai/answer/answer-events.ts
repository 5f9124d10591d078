import type { EngineUsage, GenEvent } from "../../../domain/engine/engine.js";
import { listOf } from "../../../lib/collections.js";
import { isObject } from "../../../lib/json-string.js";
import { InvalidResponse, ReportedError } from "../protocol/upstream-failure.js";
import { type ChoiceOptions, ChoiceOutput } from "./choice-output.js";
import { type ChunkForms, ChunkReader } from "./chunk-forms.js";
import { contentOf, errorKind, fingerprintOf, finishReasonOf, indexOf, type Json, stringOf } from "./chunk-values.js";
import { readLogprobs } from "./token-logprobs.js";
import { AnswerUsage, type ReadUsage, readProgress, readUsage } from "./upstream-usage.js";

export interface AnswerOptions extends ChoiceOptions {
  readonly choices: number;
  /** Number of alternatives per position; undefined: log probabilities are dropped. */
  readonly logprobs: number | undefined;
  /** Whether the server puts the prompt before the text. */
  readonly isEchoedByServer: boolean;
  /** The forms of the server's chunks. */
  readonly forms: ChunkForms;
  /** The fingerprint of an answer in which the server names none. */
  readonly fingerprint: string;
  /** Text that is put before the answer and does not count as output; empty: none. */
  readonly echo: string;
  /** Whether the answer consists of the echo only: text that the server generates nevertheless is dropped. */
  readonly isEchoOnly: boolean;
  readonly estimatedPromptTokens: () => number;
}

type Emit = (event: GenEvent) => void;

/**
 * Turns the chunks of one answer into events for all dialects of servers: role, id and model of a chunk and unknown members
 * are ignored, null means absent, the first finish reason of a choice counts. `finish` and `usage` are emitted by `end`,
 * because servers state the exact usage after the finish. Throws InvalidResponse for errors and for events without a chunk.
 */
export class AnswerEvents {
  readonly #options: AnswerOptions;
  readonly #emit: Emit;
  readonly #choices: readonly ChoiceOutput[];
  readonly #usage: AnswerUsage;
  readonly #chunks: ChunkReader;
  #isAccepted = false;
  /** Whether there was an event other than the progress of the prompt. */
  hasBegun = false;
  #fingerprint: string;
  #unfinished: number;

  constructor(options: AnswerOptions, emit: Emit) {
    const { choices, fingerprint, forms, estimatedPromptTokens } = options;
    this.#options = options;
    this.#chunks = new ChunkReader(forms);
    this.#emit = emit;
    this.#fingerprint = fingerprint;
    this.#unfinished = choices;
    this.#usage = new AnswerUsage(choices, estimatedPromptTokens);
    this.#choices = listOf(choices, (i) => new ChoiceOutput(i, options, this.#usage, emit));
  }

  /** Whether every choice has its finish reason. */
  get isFinished(): boolean {
    return this.#unfinished === 0;
  }

  /** The server's fingerprint of the model and its settings. */
  get fingerprint(): string {
    return this.#fingerprint;
  }

  /** The usage until now; null before the first chunk: the server has not begun. */
  get usageSoFar(): EngineUsage | null {
    return this.#isAccepted ? this.#usage.figures() : null;
  }

  /** Takes the data of one event of the stream. Returns whether it is the last one. */
  take(data: string): boolean {
    const text = this.#chunks.readText(data);
    if (text !== null) {
      const usage = this.#chunks.hasCounts ? readUsage(this.#chunks.chunk) : null;
      if (usage !== null) this.#takeUsage(usage, 0);
      this.#text(this.#choices[0], text);
      return false;
    }
    if (data.length < 16 && data.trim() === "[DONE]") return true;
    const chunk = this.#chunks.read(data);
    if (chunk === undefined) throw new InvalidResponse("the upstream sent an event that is not JSON");
    this.takeChunk(chunk);
    if (this.#isPlainText(chunk)) this.#chunks.expectText(data);
    return false;
  }

  /** Takes a parsed chunk. A list is how some servers send an error; other values than objects are skipped. */
  takeChunk(value: unknown): void {
    const chunk: unknown = Array.isArray(value) ? value[0] : value;
    if (!isObject(chunk)) return;
    if ((chunk["error"] ?? null) !== null || chunk["object"] === "error") {
      throw new ReportedError(JSON.stringify(chunk), new Error(errorKind(chunk)));
    }
    const progress = readProgress(chunk);
    if (progress !== null) {
      this.#usage.take(progress, null);
      this.#accept(chunk);
      return;
    }
    this.hasBegun = true;
    const choices: readonly unknown[] = Array.isArray(chunk["choices"]) ? chunk["choices"] : [];
    const usage = readUsage(chunk);
    const [only] = choices;
    if (usage !== null) this.#takeUsage(usage, choices.length === 1 && isObject(only) ? indexOf(only) : null);
    this.#accept(chunk);
    for (const choice of choices) if (isObject(choice)) this.#takeChoice(choice);
  }

  /** Emits held text, the finish of each choice and the usage. Throws InvalidResponse for an answer that is not complete. */
  end(): void {
    if (!this.isFinished) throw new InvalidResponse("the upstream's answer ended without a finish reason");
    for (const choice of this.#choices) choice.flush();
    for (const choice of this.#choices) choice.end();
    this.#emit({ type: "usage", ...this.#usage.figures() });
  }

  /** Emits `accepted` at the first chunk, and again when the fingerprint comes later: vLLM sends it with the usage. */
  #accept(chunk: Json): void {
    const fingerprint = fingerprintOf(chunk["system_fingerprint"]);
    const isNew = fingerprint !== null && fingerprint !== this.#fingerprint;
    if (this.#isAccepted && !isNew) return;
    const isFirst = !this.#isAccepted;
    this.#isAccepted = true;
    const { promptTokens, cachedTokens } = this.#usage;
    const accepted = { type: "accepted", promptTokens, cachedTokens } as const;
    if (isNew) this.#fingerprint = fingerprint;
    this.#emit(isNew ? { ...accepted, fingerprint } : accepted);
    const { echo } = this.#options;
    if (!isFirst || echo === "") return;
    for (const index of this.#choices.keys()) this.#emit({ type: "text", choice: index, text: echo, outTokens: 0 });
  }

  #takeUsage(usage: ReadUsage, choice: number | null): void {
    this.#usage.take(this.#options.isEchoOnly ? { ...usage, outTokens: null } : usage, choice);
  }

  #takeChoice(value: Json): void {
    const choice = this.#choices[indexOf(value)];
    if (choice === undefined || choice.reason !== null) return;
    const delta = isObject(value["delta"]) ? value["delta"] : isObject(value["message"]) ? value["message"] : null;
    const { logprobs, isEchoedByServer } = this.#options;
    if (logprobs !== undefined) choice.logprobs(readLogprobs(value["logprobs"], logprobs, isEchoedByServer));
    if (delta === null) this.#text(choice, stringOf(value["text"]));
    else this.#takeDelta(choice, delta);
    const reason = finishReasonOf(value["finish_reason"]);
    if (reason === null) return;
    choice.finish(reason);
    this.#unfinished -= 1;
    // vLLM and SGLang name the stop string here, or the id of the stop token.
    if (choice.reason === "stop") {
      choice.stopSequence = stringOf(value["stop_reason"]) || stringOf(value["matched_stop"]) || null;
    }
  }

  #takeDelta(choice: ChoiceOutput, delta: Json): void {
    const { text, thinking } = contentOf(delta["content"]);
    choice.otherText("reasoning", stringOf(delta["reasoning_content"]) || stringOf(delta["reasoning"]) || thinking);
    this.#text(choice, text);
    choice.otherText("refusal", stringOf(delta["refusal"]));
    const calls: unknown = delta["tool_calls"];
    if (Array.isArray(calls)) choice.calls(calls);
  }

  #text(choice: ChoiceOutput | undefined, text: string): void {
    if (!this.#options.isEchoOnly) choice?.text(text);
  }

  /** Whether only the chunk's text and usage have an effect, so that later chunks of the same form need no other treatment. */
  #isPlainText(value: unknown): boolean {
    if (this.#choices.length > 1 || !isObject(value) || !Array.isArray(value["choices"])) return false;
    if (value["prompt_progress"] !== undefined) return false;
    const [choice, second]: readonly unknown[] = value["choices"];
    if (second !== undefined || !isObject(choice) || indexOf(choice) !== 0) return false;
    if (finishReasonOf(choice["finish_reason"]) !== null) return false;
    if (this.#options.logprobs !== undefined && (choice["logprobs"] ?? null) !== null) return false;
    const { delta } = choice;
    if (!isObject(delta)) return typeof choice["text"] === "string" && (choice["message"] ?? null) === null;
    return (
      typeof delta["content"] === "string" &&
      stringOf(delta["reasoning_content"]) === "" &&
      stringOf(delta["reasoning"]) === "" &&
      stringOf(delta["refusal"]) === "" &&
      (!Array.isArray(delta["tool_calls"]) || delta["tool_calls"].length === 0)
    );
  }
}
