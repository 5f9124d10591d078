import type { GenEvent } from "../../../domain/engine/engine.js";
import type { FromChild } from "../protocol/protocol.js";

/**
 * The shortest time between two messages, about that between two pictures on a screen. Each message wakes the server and
 * the client, which takes a good part of the time that a small model needs for a token.
 */
const betweenMs = 15;

/**
 * Gathers the events of all calls and sends those of one turn of the engine in one message. Where turns are very short,
 * a message takes those of several; the beginning of an answer never waits.
 */
export class EventBatch {
  readonly #send: (message: FromChild) => void;
  readonly #atTurnEnd: (callback: () => void) => void;
  #events: (readonly [call: number, event: GenEvent])[] = [];
  #isUrgent = false;
  #sentAtMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | null = null;

  constructor(send: (message: FromChild) => void, atTurnEnd: (callback: () => void) => void) {
    this.#send = send;
    this.#atTurnEnd = atTurnEnd;
  }

  add(call: number, event: GenEvent): void {
    this.#isUrgent ||= isBeginning(event);
    if (this.#events.length === 0 || this.#isUrgent) this.#atTurnEnd(() => this.#flushInTime());
    this.#events.push([call, event]);
  }

  /** For the message after a call's last event. */
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

function isBeginning(event: GenEvent): boolean {
  return event.type === "accepted" || event.outTokens <= 1;
}

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
