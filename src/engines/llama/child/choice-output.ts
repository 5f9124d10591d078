import type { FinishReason, GenEvent } from "../../../domain/engine/engine.js";
import { StopSequences } from "../../../domain/inference/stop-sequences.js";
import { TokenText } from "../text/token-text.js";
import type { OutputPart, OutputReader } from "../tools/output-reader.js";
import { HeldLogprobs, tokenLogprob } from "./logprobs.js";
import type { DecodedToken } from "./native-model.js";
import type { TokenSpelling } from "./token-spelling.js";

export interface ChoiceOutputDeps {
  readonly reader: OutputReader;
  readonly stop: readonly string[];
  /** Alternatives per token; null: no log probabilities. */
  readonly logprobs: number | null;
  readonly spelling: TokenSpelling;
  readonly detokenize: (tokens: readonly number[], before: readonly number[]) => string;
}

export interface ChoiceEnd {
  readonly events: readonly GenEvent[];
  readonly reason: FinishReason;
  /** Why the result breaks its form; null: it does not. */
  readonly fault: string | null;
}

/** The domain runs the choices of a request one by one. */
const choice = 0;

/** Turns the tokens of an answer into its events: text, then what the text means, then what of it may be shown. */
export class ChoiceOutput {
  readonly #reader: OutputReader;
  readonly #stops: StopSequences | null;
  readonly #logprobs: HeldLogprobs | null;
  readonly #alternatives: number;
  readonly #spelling: TokenSpelling;
  readonly #text: TokenText;
  readonly #tokens: number[] = [];
  #reasoningTokens = 0;
  #kind: OutputPart["type"] = "text";
  #stopped = false;

  constructor({ reader, stop, logprobs, spelling, detokenize }: ChoiceOutputDeps) {
    this.#reader = reader;
    this.#stops = stop.length === 0 ? null : new StopSequences(stop);
    this.#logprobs = logprobs === null ? null : new HeldLogprobs();
    this.#alternatives = logprobs ?? 0;
    this.#spelling = spelling;
    this.#text = new TokenText(detokenize);
  }

  /** Tokens of the answer, held-back ones included, without the one that ends it. */
  get tokens(): readonly number[] {
    return this.#tokens;
  }

  get reasoningTokens(): number {
    return this.#reasoningTokens;
  }

  /** Whether nothing may follow: a stop string was found, or the answer is complete. */
  get isOver(): boolean {
    return this.#stopped || this.#reader.done;
  }

  push({ token, probabilities }: DecodedToken): readonly GenEvent[] {
    this.#tokens.push(token);
    const text = this.#text.push(token);
    if (this.#logprobs !== null && probabilities !== null) {
      this.#logprobs.add(tokenLogprob(token, probabilities, this.#alternatives, this.#spelling), text);
    }
    const events = text === "" ? [] : this.#eventsOf(this.#reader.push(text));
    if (this.#kind === "reasoning") this.#reasoningTokens++;
    // Tokens that only mark where thoughts or a call begin and end are no content either.
    if (this.#kind !== "text") this.#logprobs?.drop();
    return events;
  }

  /** `cut`: there is no room for more, and the model had not ended. */
  end(cut: boolean): ChoiceEnd {
    if (this.#stopped) return { events: [], reason: "stop", fault: null };
    const last = this.#eventsOf(this.#reader.push(this.#text.flush()));
    const { parts, reason, fault } = this.#reader.end(cut);
    const events = this.#stopped ? last : [...last, ...this.#eventsOf(parts)];
    if (this.#stopped) return { events, reason: "stop", fault: null };
    return { events: [...events, ...this.#heldText(), ...this.#owedLogprobs()], reason, fault };
  }

  #eventsOf(parts: readonly OutputPart[]): readonly GenEvent[] {
    const events: GenEvent[] = [];
    for (const part of parts) {
      if (this.#stopped) break;
      if (part.type === "text") {
        events.push(...this.#textEvents(part.text));
      } else {
        if (this.#kind === "text") events.push(...this.#heldText());
        const outTokens = this.#tokens.length;
        events.push({ ...part, choice, outTokens });
      }
      this.#kind = part.type;
    }
    return events;
  }

  #textEvents(text: string): readonly GenEvent[] {
    if (this.#stops === null) return this.#shown(text);
    const { emit, stopped } = this.#stops.push(text);
    this.#stopped = stopped;
    return this.#shown(emit);
  }

  #shown(text: string): readonly GenEvent[] {
    if (text === "") return [];
    const event = { type: "text", choice, text, outTokens: this.#tokens.length } as const;
    return [this.#logprobs === null ? event : { ...event, logprobs: this.#logprobs.show(text.length) }];
  }

  /** What could have been the beginning of a stop string. */
  #heldText(): readonly GenEvent[] {
    return this.#shown(this.#stops?.flush() ?? "");
  }

  /** Those of tokens that made no text. */
  #owedLogprobs(): readonly GenEvent[] {
    const logprobs = this.#logprobs?.rest() ?? [];
    return logprobs.length === 0 ? [] : [{ type: "text", choice, text: "", outTokens: this.#tokens.length, logprobs }];
  }
}
