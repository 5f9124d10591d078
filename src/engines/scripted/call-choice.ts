import type { FinishReason, GenEvent } from "../../domain/engine/engine.js";
import type { Choice } from "./choice.js";
import type { Script } from "./script.js";

export interface ScriptedCall {
  readonly name: string;
  /** The JSON text of the arguments; at least one token. */
  readonly args: Script;
}

/** A choice that makes calls, one after the other. Only the tokens of the arguments count. */
export class CallChoice implements Choice {
  readonly index: number;
  readonly #calls: readonly ScriptedCall[];
  readonly #newCallId: () => string;
  readonly #total: number;
  readonly #end: number;
  #produced = 0;
  #call = 0;
  /** Tokens of the current call that are out. */
  #at = 0;

  constructor(index: number, calls: readonly ScriptedCall[], tokensMax: number, newCallId: () => string) {
    this.index = index;
    this.#calls = calls;
    this.#newCallId = newCallId;
    this.#total = calls.reduce((sum, call) => sum + call.args.length, 0);
    this.#end = Math.min(this.#total, tokensMax);
  }

  get produced(): number {
    return this.#produced;
  }

  get left(): number {
    return this.#end - this.#produced;
  }

  /** A call that was cut is never reported as made (TOOL-15). */
  get reason(): FinishReason {
    return this.#produced === this.#total ? "tool_calls" : "length";
  }

  take(count: number): GenEvent[] {
    const events: GenEvent[] = [];
    const to = this.#produced + Math.min(count, this.left);
    while (this.#produced < to) events.push(...this.#takeOfCall(to - this.#produced));
    return events;
  }

  /** Produces up to `count` tokens of the current call. */
  #takeOfCall(count: number): readonly GenEvent[] {
    const call = this.#calls[this.#call];
    if (call === undefined) return [];
    const index = this.#call;
    const from = this.#at;
    const start = from === 0 ? [{ ...this.#event(index), id: this.#newCallId(), name: call.name }] : [];
    this.#at = Math.min(from + count, call.args.length);
    this.#produced += this.#at - from;
    const argsDelta = call.args.text(from, this.#at);
    if (this.#at === call.args.length) {
      this.#call++;
      this.#at = 0;
    }
    return [...start, { ...this.#event(index), argsDelta }];
  }

  #event(index: number): { type: "tool"; choice: number; index: number; outTokens: number } {
    return { type: "tool", choice: this.index, index, outTokens: this.#produced };
  }
}
