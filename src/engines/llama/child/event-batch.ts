import type { GenEvent } from "../../../domain/engine/engine.js";
import type { FromChild } from "../protocol/protocol.js";
import type { StepBatcher } from "./steps.js";

/**
 * Minimum time between two messages, about one frame of a screen. Each message wakes the server and the client, which
 * takes much of the time that a small model needs for a token.
 */
const betweenMs = 15;

/**
 * Collects the events of all calls and sends the events of one batch of steps, or of several short batches, in one
 * message. The beginning of an answer is sent without delay.
 */
export class EventBatch {
  readonly #send: (message: FromChild) => void;
  readonly #batcher: Pick<StepBatcher, "atEnd">;
  #events: (readonly [call: number, event: GenEvent])[] = [];
  #isUrgent = false;
  #sentAtMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | null = null;

  constructor(send: (message: FromChild) => void, batcher: Pick<StepBatcher, "atEnd">) {
    this.#send = send;
    this.#batcher = batcher;
  }

  add(call: number, event: GenEvent): void {
    this.#isUrgent ||= event.type === "accepted" || event.outTokens <= 1;
    if (this.#events.length === 0 || this.#isUrgent) this.#batcher.atEnd(() => this.#flushInTime());
    this.#events.push([call, event]);
  }

  /** Sends all events now. Must be called before the message that ends a call. */
  flush(): void {
    if (this.#events.length === 0) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    const events = this.#events;
    this.#events = [];
    this.#isUrgent = false;
    this.#sentAtMs = performance.now();
    this.#send({ type: "events", events });
  }

  #flushInTime(): void {
    const leftMs = this.#isUrgent ? 0 : this.#sentAtMs + betweenMs - performance.now();
    if (leftMs <= 0) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), leftMs);
  }
}

/** A joined event with this many tokens or log probabilities is sent before the answer ends. */
const joinedTokensMax = 64;

/** Joins neighbouring events of an answer that is not streamed, so that fewer are sent. */
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
    const isLong =
      tokensOf(this.#held) - this.#sentTokens >= joinedTokensMax || logprobsOf(this.#held) >= joinedTokensMax;
    if (isLong || !isJoinable(this.#held)) this.#release();
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

/** Number of log probabilities of an event. An echoed prompt has them too, although it has no output tokens. */
function logprobsOf(event: GenEvent): number {
  return event.type === "text" ? (event.logprobs?.length ?? 0) : 0;
}

/** The two events as one; null if the second does not continue the first. */
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
