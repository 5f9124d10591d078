import type { GenEvent } from "../../../domain/engine/engine.js";

/** Tokens after which joined text goes out although the answer goes on. */
const joinedTokensMax = 64;

/** Joins neighbouring events of an answer that nobody reads along, so that fewer go through the channel. */
export class EventJoiner {
  readonly #send: (event: GenEvent) => void;
  #held: GenEvent | null = null;
  #sentTokens = 0;

  constructor(send: (event: GenEvent) => void) {
    this.#send = send;
  }

  push(event: GenEvent): void {
    const joined = this.#held === null ? event : join(this.#held, event);
    if (joined === null) this.#release();
    this.#held = joined ?? event;
    if (tokensOf(this.#held) - this.#sentTokens >= joinedTokensMax || !isJoinable(this.#held)) this.#release();
  }

  #release(): void {
    if (this.#held === null) return;
    this.#send(this.#held);
    this.#sentTokens = tokensOf(this.#held);
    this.#held = null;
  }
}

function isJoinable({ type }: GenEvent): boolean {
  return type === "text" || type === "reasoning" || type === "tool";
}

function tokensOf(event: GenEvent): number {
  return event.type === "accepted" ? 0 : event.outTokens;
}

/** Null when the second does not simply go on where the first ends. */
function join(first: GenEvent, second: GenEvent): GenEvent | null {
  if (first.type === "text" && second.type === "text") {
    const text = first.text + second.text;
    if (second.logprobs === undefined) return { ...first, ...second, text };
    return { ...second, text, logprobs: [...(first.logprobs ?? []), ...second.logprobs] };
  }
  if (first.type === "reasoning" && second.type === "reasoning") return { ...second, text: first.text + second.text };
  if (first.type === "tool" && second.type === "tool" && first.index === second.index && second.id === undefined) {
    return { ...first, ...second, argsDelta: (first.argsDelta ?? "") + (second.argsDelta ?? "") };
  }
  return null;
}
