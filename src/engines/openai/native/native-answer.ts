import type { EngineUsage, FinishReason, GenEvent } from "../../../domain/engine/engine.js";
import { isObject } from "../../../lib/json-string.js";
import { errorKind, type Json, stringOf } from "../answer/chunk-values.js";
import { AnswerUsage, type ReadUsage } from "../answer/upstream-usage.js";
import { InvalidResponse, parseJson, ReportedError } from "../protocol/upstream-failure.js";

/** Reads the events of one API, which are passed on unchanged. */
export interface NativeEvents {
  /** Reads an event that is no delta. Throws ReportedError for an error. */
  read(event: Json): NativeFacts;
  /** Reads an answer that did not stream. */
  readWhole(answer: Json): NativeFacts;
  /** Collects an event of an answer that the client wants as one JSON object. */
  collect(event: Json): void;
  /** The whole answer, assembled from the collected events. */
  whole(): Json;
}

/** The information in one event. */
export interface NativeFacts {
  readonly usage: ReadUsage | null;
  /** The finish reason; null: the answer continues. */
  readonly reason: FinishReason | null;
  /** The object in the event that names the model; null: none. */
  readonly named: Json | null;
  /** `preliminary`: before any content of the answer. `content`: a part of it. `ending`: after it. `ignored`: not passed on. */
  readonly place: "preliminary" | "content" | "ending" | "ignored";
  readonly isLast: boolean;
}

export interface NativeAnswerOptions {
  readonly events: NativeEvents;
  /** Id of the model to state in the answer. */
  readonly model: string;
  /** Whether the client wants the whole answer as one JSON object instead of a stream. */
  readonly joins: boolean;
  readonly fingerprint: string;
  readonly estimatedPromptTokens: () => number;
}

/** Finds the type of an event whose first member it is; all servers write deltas this way. */
const leadingType = /^\{"type": ?"([\w.]+)"/;
const isDelta = /^(content_block_delta|response\.[\w.]+\.delta)$/;

/**
 * Passes on an answer in the API of its request: events stay as the server sent them, except for the name of the model.
 * Events before the first content are held, so that another deployment can still answer.
 */
export class NativeAnswer {
  readonly fingerprint: string;
  readonly #options: NativeAnswerOptions;
  readonly #emit: (event: GenEvent) => void;
  readonly #usage: AnswerUsage;
  #isAccepted = false;
  hasBegun = false;
  #reason: FinishReason | null = null;
  /** Events before the first content. */
  #held = "";
  /** Events of the end, or the whole answer. */
  #ending = "";

  constructor(options: NativeAnswerOptions, emit: (event: GenEvent) => void) {
    this.fingerprint = options.fingerprint;
    this.#options = options;
    this.#emit = emit;
    this.#usage = new AnswerUsage(1, options.estimatedPromptTokens);
  }

  get isFinished(): boolean {
    return this.#reason !== null;
  }

  get usageSoFar(): EngineUsage | null {
    return this.#isAccepted ? this.#usage.figures() : null;
  }

  take(data: string): boolean {
    if (data.length < 16 && data.trim() === "[DONE]") return true;
    const leading = leadingType.exec(data)?.[1] ?? "";
    if (isDelta.test(leading) && !this.#options.joins) {
      this.#content(leading, data);
      return false;
    }
    const event = parseJson(data);
    if (event === undefined) throw new InvalidResponse("the upstream sent an event that is not JSON");
    if (!isObject(event)) return false;
    const type = stringOf(event["type"]);
    if (isDelta.test(type)) {
      this.#content(type, data, event);
      return false;
    }
    if ((event["error"] ?? null) !== null || type === "error") throw reported(event);
    return this.#takeEvent(type, data, event);
  }

  takeChunk(answer: unknown): void {
    if (!isObject(answer)) return;
    if (answer["type"] === "error" || (answer["error"] ?? null) !== null) throw reported(answer);
    const facts = this.#options.events.readWhole(answer);
    this.#note(facts);
    if (!this.#options.joins) throw new InvalidResponse("the upstream did not stream its answer");
    this.#ending = this.#json(answer, facts);
  }

  /** Emits the last events, the finish and the usage. Throws InvalidResponse for an answer that is not complete. */
  end(): void {
    const { joins, events, model } = this.#options;
    const reason = this.#reason;
    if (reason === null) throw new InvalidResponse("the upstream's answer ended without its last event");
    const outTokens = this.#usage.outTokens(0);
    const whole = joins && this.#ending === "" ? JSON.stringify({ ...events.whole(), model }) : this.#ending;
    this.#emit({ type: "native", choice: 0, text: this.#held + whole, outTokens, isLast: true });
    this.#emit({ type: "finish", choice: 0, reason, outTokens });
    this.#emit({ type: "usage", ...this.#usage.figures() });
  }

  #takeEvent(type: string, data: string, event: Json): boolean {
    const { events, joins } = this.#options;
    const facts = events.read(event);
    if (facts.place === "ignored" && !this.hasBegun) return false;
    this.#note(facts);
    if (joins) {
      events.collect(event);
      this.hasBegun ||= facts.place === "content";
      return facts.isLast;
    }
    const text = frame(type, this.#json(event, facts, data));
    if (facts.place === "ending") this.#ending += text;
    else if (facts.place === "preliminary" && !this.hasBegun) this.#held += text;
    else this.#pass(text);
    return facts.isLast;
  }

  #note({ usage, reason }: NativeFacts): void {
    if (usage !== null) this.#usage.take(usage, null);
    this.#reason ??= reason;
    if (this.#isAccepted) return;
    this.#isAccepted = true;
    const { promptTokens, cachedTokens } = this.#usage;
    this.#emit({ type: "accepted", promptTokens, cachedTokens });
  }

  #content(type: string, data: string, event?: Json): void {
    this.#note({ usage: null, reason: null, named: null, place: "content", isLast: false });
    this.#usage.chunk(0);
    if (this.#options.joins) {
      this.hasBegun = true;
      if (event !== undefined) this.#options.events.collect(event);
    } else this.#pass(frame(type, data));
  }

  #pass(text: string): void {
    this.hasBegun = true;
    const whole = this.#held + text;
    this.#held = "";
    this.#emit({ type: "native", choice: 0, text: whole, outTokens: this.#usage.outTokens(0), isLast: false });
  }

  /** The event unchanged or, if it names the model, with our name of the model. */
  #json(event: Json, { named }: NativeFacts, data?: string): string {
    if (data !== undefined && typeof named?.["model"] !== "string") return data;
    const { model } = this.#options;
    return JSON.stringify(event, (_, value: unknown) =>
      value === named && named !== null ? { ...named, model } : value,
    );
  }
}

/** Formats a server-sent event. Line ends in the data are removed: in JSON they are only between tokens. */
function frame(type: string, data: string): string {
  return `event: ${type}\ndata: ${data.includes("\n") ? data.replaceAll("\n", " ") : data}\n\n`;
}

function reported(event: Json): ReportedError {
  return new ReportedError(JSON.stringify(event), new Error(errorKind(event)));
}
