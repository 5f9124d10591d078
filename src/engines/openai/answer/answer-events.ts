import type { EngineUsage, FinishReason, GenEvent, TokenLogprobInfo } from "../../../domain/engine/engine.js";
import { isObject } from "../../../lib/json-string.js";
import { InvalidResponse, parseJson, ReportedError } from "../protocol/upstream-failure.js";
import {
  contentOf,
  errorKind,
  fingerprintOf,
  finishReasonOf,
  indexOf,
  type Json,
  stringOf,
  wellFormed,
} from "./chunk-values.js";
import { TextTemplate } from "./text-template.js";
import { readLogprobs } from "./token-logprobs.js";
import { ToolCalls } from "./tool-calls.js";
import { AnswerUsage, type ReadUsage, readProgress, readUsage } from "./upstream-usage.js";

export interface AnswerOptions {
  readonly choices: number;
  /** Alternatives per position; undefined: log probabilities are dropped. */
  readonly logprobs: number | undefined;
  /** A tool has to be called: text is held until the call comes. */
  readonly isForced: boolean;
  readonly parallelToolCalls: boolean;
  /** Whether text events of a choice may be joined. */
  readonly joins: boolean;
  /** The fingerprint that the answer has unless the server names another one. */
  readonly fingerprint: string;
  /** Text before the answer's own, which counts as no output; empty: none. */
  readonly echo: string;
  /** Whether the answer is the echo alone: what the server generates all the same is dropped. */
  readonly isEchoOnly: boolean;
  readonly estimatedPromptTokens: () => number;
  readonly newCallId: () => string;
}

type Emit = (event: GenEvent) => void;

/** Characters of joined text after which an event is emitted all the same. */
const joinedCharsMax = 16_384;
/** Characters before a forced call: llama.cpp lets a model that makes none write until its context is full. */
const forcedCharsMax = 32_768;
/** Positions whose text has not come. */
const heldLogprobsMax = 1_024;

interface Choice {
  reason: FinishReason | null;
  stopSequence: string | null;
  /** A high surrogate whose other half has not come. */
  half: string;
  /** Text that is joined, or held because a call is forced. */
  waiting: string;
  hasText: boolean;
  logprobs: TokenLogprobInfo[] | null;
  readonly calls: ToolCalls;
}

/**
 * Turns the chunks of one answer into events, whatever the server's dialect: role, id and model are ours, unknown members
 * are ignored, null is absent, the first finish of a choice counts. `finish` and `usage` come from `end`, because servers
 * state the exact usage after the finish. Throws InvalidResponse for errors in the stream and for what is no chunk.
 */
export class AnswerEvents {
  readonly #options: AnswerOptions;
  readonly #emit: Emit;
  readonly #choices: readonly Choice[];
  readonly #usage: AnswerUsage;
  readonly #template = new TextTemplate();
  #isAccepted = false;
  /** Whether there was more than progress. */
  hasBegun = false;
  #fingerprint: string;
  #unfinished: number;

  constructor(options: AnswerOptions, emit: Emit) {
    const { choices, parallelToolCalls, newCallId, fingerprint, estimatedPromptTokens } = options;
    this.#options = options;
    this.#emit = emit;
    this.#fingerprint = fingerprint;
    this.#unfinished = choices;
    this.#usage = new AnswerUsage(choices, estimatedPromptTokens);
    this.#choices = Array.from({ length: choices }, (_, index) => ({
      reason: null,
      stopSequence: null,
      half: "",
      waiting: "",
      hasText: false,
      logprobs: null,
      calls: new ToolCalls(index, parallelToolCalls, newCallId),
    }));
  }

  /** Whether every choice has its finish reason. */
  get isFinished(): boolean {
    return this.#unfinished === 0;
  }

  /** The server's name for what determines the output. */
  get fingerprint(): string {
    return this.#fingerprint;
  }

  /** Null before the first chunk: the server has not begun. */
  get usageSoFar(): EngineUsage | null {
    return this.#isAccepted ? this.#usage.figures() : null;
  }

  /** Takes the data of one event of the stream. */
  take(data: string): void {
    const text = this.#template.match(data);
    if (text !== null) {
      const { outTokens } = this.#template;
      if (outTokens !== null) this.#usage.exact(0, outTokens);
      this.#text(0, text);
      return;
    }
    const chunk = parseJson(data);
    if (chunk === undefined) throw new InvalidResponse("the upstream sent an event that is not JSON");
    // A single chunk of text is often the whole answer.
    const hadText = this.#choices[0]?.hasText === true;
    this.takeChunk(chunk);
    if (hadText && this.#isPlainText(chunk)) this.#template.learn(data, chunk);
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

  /** Emits what is held, the finishes and the usage. Throws InvalidResponse for an answer that is not complete. */
  end(): void {
    if (!this.isFinished) throw new InvalidResponse("the upstream's answer ended without a finish reason");
    for (const [index, choice] of this.#choices.entries()) this.#flush(index, choice);
    for (const [index, { reason, stopSequence }] of this.#choices.entries()) {
      if (reason === null) continue;
      const finish = { type: "finish", choice: index, reason, outTokens: this.#usage.outTokens(index) } as const;
      this.#emit(stopSequence === null ? finish : { ...finish, stopSequence });
    }
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
    if (isNew) {
      this.#fingerprint = fingerprint;
      this.#template.forget();
    }
    this.#emit(isNew ? { ...accepted, fingerprint } : accepted);
    const { echo } = this.#options;
    if (!isFirst || echo === "") return;
    for (const index of this.#choices.keys()) this.#emit({ type: "text", choice: index, text: echo, outTokens: 0 });
  }

  #takeUsage(usage: ReadUsage, choice: number | null): void {
    this.#usage.take(this.#options.isEchoOnly ? { ...usage, outTokens: null } : usage, choice);
  }

  #takeChoice(value: Json): void {
    const index = indexOf(value);
    const choice = this.#choices[index];
    if (choice === undefined || choice.reason !== null) return;
    const delta = isObject(value["delta"]) ? value["delta"] : isObject(value["message"]) ? value["message"] : null;
    if (this.#options.logprobs !== undefined) {
      const logprobs = readLogprobs(value["logprobs"], this.#options.logprobs);
      if (logprobs.length > 0) {
        choice.logprobs ??= [];
        choice.logprobs.push(...logprobs);
        if (choice.logprobs.length >= heldLogprobsMax) this.#flush(index, choice);
      }
    }
    if (delta === null) this.#text(index, stringOf(value["text"]));
    else this.#takeDelta(index, choice, delta);
    const reason = finishReasonOf(value["finish_reason"]);
    if (reason === null) return;
    this.#finish(choice, reason);
    // vLLM and SGLang name the stop string here, or the id of the stop token.
    if (choice.reason === "stop") {
      choice.stopSequence = stringOf(value["stop_reason"]) || stringOf(value["matched_stop"]) || null;
    }
  }

  #takeDelta(index: number, choice: Choice, delta: Json): void {
    const { text, thinking } = contentOf(delta["content"]);
    const reasoning = stringOf(delta["reasoning_content"]) || stringOf(delta["reasoning"]) || thinking;
    if (reasoning !== "") {
      this.#flush(index, choice);
      this.#emit({
        type: "reasoning",
        choice: index,
        text: wellFormed(reasoning),
        outTokens: this.#usage.chunk(index),
      });
    }
    this.#text(index, text);
    const refusal = stringOf(delta["refusal"]);
    if (refusal !== "") {
      this.#flush(index, choice);
      this.#emit({ type: "refusal", choice: index, text: wellFormed(refusal), outTokens: this.#usage.chunk(index) });
    }
    const calls: unknown = delta["tool_calls"];
    if (!Array.isArray(calls) || calls.length === 0) return;
    const outTokens = this.#usage.chunk(index);
    for (const call of calls) {
      choice.calls.take(call, outTokens, (event) => {
        this.#flush(index, choice);
        this.#emit(event);
      });
    }
  }

  #text(index: number, text: string): void {
    const choice = this.#choices[index];
    if (choice === undefined || text === "" || choice.reason !== null || this.#options.isEchoOnly) return;
    const outTokens = this.#usage.chunk(index);
    const whole = this.#wholeCharacters(choice, text);
    if (whole === "") return;
    const { isForced, joins } = this.#options;
    if (isForced && choice.calls.isEmpty) {
      choice.waiting += whole;
      if (choice.waiting.length > forcedCharsMax) throw notForced();
      return;
    }
    // The first text is emitted at once: it is the time of the first token.
    if (joins && choice.hasText) {
      choice.waiting += whole;
      if (choice.waiting.length < joinedCharsMax) return;
      this.#flush(index, choice);
      return;
    }
    choice.hasText = true;
    this.#emitText(index, choice, choice.waiting + whole, outTokens);
    choice.waiting = "";
  }

  #emitText(index: number, choice: Choice, text: string, outTokens: number): void {
    const { logprobs } = choice;
    if (logprobs === null) {
      this.#emit({ type: "text", choice: index, text, outTokens });
      return;
    }
    choice.logprobs = null;
    this.#emit({ type: "text", choice: index, text, outTokens, logprobs });
  }

  /** Emits text that waits. */
  #flush(index: number, choice: Choice): void {
    if (choice.waiting === "" && choice.logprobs === null) return;
    const text = choice.waiting;
    choice.waiting = "";
    choice.hasText = true;
    this.#emitText(index, choice, text, this.#usage.outTokens(index));
  }

  /** Holds back a character of which only half has come; a half that stands alone becomes U+FFFD. */
  #wholeCharacters(choice: Choice, text: string): string {
    const last = text.charCodeAt(text.length - 1);
    const endsOpen = last >= 0xd800 && last < 0xdc00;
    if (choice.half === "" && !endsOpen) return wellFormed(text);
    const joined = choice.half + text;
    choice.half = endsOpen ? joined.slice(-1) : "";
    return wellFormed(endsOpen ? joined.slice(0, -1) : joined);
  }

  #finish(choice: Choice, reason: FinishReason): void {
    if (choice.half !== "") {
      choice.half = "";
      choice.waiting += "\ufffd";
    }
    choice.calls.end();
    const hasCalls = !choice.calls.isEmpty;
    if (this.#options.isForced && !hasCalls && (choice.waiting !== "" || reason !== "length")) {
      throw notForced();
    }
    if (hasCalls && reason === "stop") choice.reason = "tool_calls";
    else choice.reason = !hasCalls && reason === "tool_calls" ? "stop" : reason;
    this.#unfinished -= 1;
  }

  /** Whether the chunk has an effect by its text, and by exact usage, alone: then others of its form may skip the parser. */
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

function notForced(): InvalidResponse {
  return new InvalidResponse("the upstream did not make the tool call that the request forces");
}
