import type { Clock } from "../../domain/call/ports.js";
import { type EmitEvent, EngineError, type EngineUsage, type GenEvent } from "../../domain/engine/engine.js";
import { eventBytesMax, SseReader } from "./answer/sse-reader.js";
import { BodyCollector, errorBytesMax } from "./connection/body-collector.js";
import type { AnswerReader, Exchange } from "./connection/exchange.js";
import {
  type AnswerHeaders,
  engineErrorOf,
  type FailedRequest,
  InvalidResponse,
  parseJson,
  ReportedError,
  reportedErrorOf,
  withUsage,
} from "./protocol/upstream-failure.js";

/** Maximum wait for the usage after the finish of the last choice. */
const tailMs = 5_000;

/** Turns an answer in the protocol of its server into events. Its methods throw InvalidResponse or the consumer's error. */
export interface AnswerParser {
  /** Whether the answer itself has begun, not only the progress of its prompt. */
  readonly hasBegun: boolean;
  /** Whether every choice has its finish reason. */
  readonly isFinished: boolean;
  readonly fingerprint: string;
  /** The usage until now; null: the server has not begun. */
  readonly usageSoFar: EngineUsage | null;
  /** Takes the data of one event of a stream. Returns whether it is the last one. */
  take(data: string): boolean;
  /** Takes a whole answer, of a server that does not stream. */
  takeChunk(answer: unknown): void;
  /** Emits held text, the finish of each choice and the usage. */
  end(): void;
}

export interface GenerateCallOptions {
  readonly clock: Clock;
  readonly parser: (emit: (event: GenEvent) => void) => AnswerParser;
  readonly request: FailedRequest;
  readonly emit: EmitEvent;
}

/**
 * One attempt of a generation: reads the answer, emits its events in order, and stops reading until the consumer has taken
 * each event. An error or the end of the connection is handled after the events that came before it.
 */
export class GenerateCall implements AnswerReader {
  readonly #options: GenerateCallOptions;
  readonly #answer: AnswerParser;
  readonly #events = new SseReader();
  /** Reads that came while the consumer was busy: at most the data that the socket had already read. */
  readonly #reads: Buffer[] = [];
  #exchange: Exchange | null = null;
  #form: "events" | "whole" | "error" = "events";
  #status = 0;
  #headers: AnswerHeaders = {};
  #body = new BodyCollector(eventBytesMax);
  /** Events that wait for the consumer; null: the consumer is ready. */
  #held: GenEvent[] | null = null;
  /** Set when the connection has ended, with an error or without. */
  #end: { readonly error: EngineError | null } | null = null;
  /** Whether the reader of events was informed of the end. */
  #isEnded = false;
  /** Whether all events are emitted or held. */
  #isComplete = false;
  #isSettled = false;
  #consumerFailed: { readonly error: unknown } | null = null;
  #cancelTail: (() => void) | null = null;
  #resolve: () => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(options: GenerateCallOptions) {
    this.#options = options;
    this.#answer = options.parser((event) => this.#send(event));
  }

  /** Resolves after the last event was taken. Rejects with EngineError or the consumer's error. Must be called once. */
  run(start: (reader: AnswerReader) => Exchange): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      const exchange = start(this);
      this.#exchange = exchange;
      if (this.#isSettled) exchange.cancel();
    });
  }

  /** Closes the connection immediately and rejects with the error and the usage so far. */
  stop(error: EngineError): void {
    this.#settle(withUsage(error, this.usage));
  }

  /** The usage so far; zero before the answer began. */
  get usage(): EngineUsage {
    return this.#answer.usageSoFar ?? { promptTokens: 0, outTokens: 0, cachedTokens: 0 };
  }

  get fingerprint(): string {
    return this.#answer.fingerprint;
  }

  get firstByteMs(): number | null {
    return this.#exchange?.firstByteMs ?? null;
  }

  head(status: number, headers: AnswerHeaders): void {
    this.#status = status;
    this.#headers = headers;
    if (status !== 200) {
      this.#form = "error";
      this.#body = new BodyCollector(errorBytesMax);
      return;
    }
    const type = String(headers["content-type"] ?? "").toLowerCase();
    const encoding = String(headers["content-encoding"] ?? "identity");
    // A server that cannot stream sends the whole answer as JSON.
    if (type.startsWith("application/json")) this.#form = "whole";
    else if (!type.startsWith("text/event-stream")) {
      this.#fail(new InvalidResponse(`the upstream's answer has the content type '${type.slice(0, 100)}'`));
    }
    if (encoding !== "identity") this.#fail(new InvalidResponse("the upstream's answer is compressed"));
  }

  data(chunk: Buffer): boolean {
    if (this.#isSettled || this.#isComplete) return true;
    if (this.#form === "events") {
      this.#reads.push(chunk);
      this.#drain();
      return this.#isSettled || this.#answer.hasBegun;
    }
    if (!this.#body.add(chunk)) {
      if (this.#form === "error") this.#failedAnswer();
      else this.#fail(new InvalidResponse(`the upstream's answer has more than ${eventBytesMax} bytes`));
    }
    return true;
  }

  end(): void {
    this.#ended(null);
  }

  fail(error: EngineError): void {
    this.#ended(error);
  }

  #ended(error: EngineError | null): void {
    if (this.#isSettled || this.#isComplete) return;
    this.#end = { error };
    if (this.#form === "events") {
      this.#drain();
    } else if (error !== null) this.#fail(error);
    else if (this.#form === "error") this.#failedAnswer();
    else this.#takeWhole();
  }

  #failedAnswer(): void {
    const answer = { status: this.#status, headers: this.#headers, body: this.#body.text() };
    this.#fail(engineErrorOf(answer, this.#options.request, this.#options.clock.now()));
  }

  #takeWhole(): void {
    const answer = parseJson(this.#body.text());
    try {
      if (answer === undefined) throw new InvalidResponse("the upstream's answer is not JSON");
      this.#answer.takeChunk(answer);
      this.#complete();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Takes the received events until the consumer is busy. */
  #drain(): void {
    try {
      while (this.#held === null && !this.#isComplete && !this.#isSettled) {
        const data = this.#next();
        if (data === null) {
          this.#atGap();
          return;
        }
        if (this.#events.lastIsError) throw new ReportedError(data);
        if (data !== "" && this.#answer.take(data)) this.#complete();
      }
    } catch (error) {
      this.#fail(error);
    }
  }

  /** The next event in the bytes received so far; null: none is complete. */
  #next(): string | null {
    for (;;) {
      const data = this.#events.next();
      if (data !== null) return data;
      const read = this.#reads.shift();
      if (read !== undefined) this.#events.push(read);
      else if (this.#end?.error === null && !this.#isEnded) {
        this.#isEnded = true;
        this.#events.end();
      } else return null;
    }
  }

  /** Called when all received events are taken: ends the call, or waits for the usage or the next read. */
  #atGap(): void {
    if (this.#end !== null) {
      if (this.#end.error !== null) this.#fail(this.#end.error);
      else this.#complete();
      return;
    }
    if (!this.#answer.isFinished) return;
    this.#cancelTail ??= this.#options.clock.after(tailMs, () =>
      this.#fail(new InvalidResponse("the upstream's answer did not end")),
    );
  }

  #complete(): void {
    this.#answer.end();
    this.#isComplete = true;
    if (this.#held === null) this.#settle(null);
  }

  #send(event: GenEvent): void {
    if (this.#held !== null) {
      this.#held.push(event);
      return;
    }
    let taken: Promise<void> | undefined;
    try {
      taken = this.#options.emit(event);
    } catch (error) {
      this.#consumerFailed = { error };
      throw error;
    }
    if (taken !== undefined) this.#hold(taken, []);
  }

  #hold(taken: Promise<void>, held: GenEvent[]): void {
    this.#held = held;
    this.#exchange?.pause();
    taken.then(
      () => this.#release(),
      (error: unknown) => {
        this.#consumerFailed = { error };
        this.#fail(error);
      },
    );
  }

  /** Called when the consumer is ready: emits the held events, then continues to read. */
  #release(): void {
    const held = this.#held ?? [];
    this.#held = null;
    if (this.#isSettled) return;
    try {
      for (const [i, event] of held.entries()) {
        const taken = this.#options.emit(event);
        if (taken === undefined) continue;
        this.#hold(taken, held.slice(i + 1));
        return;
      }
    } catch (error) {
      this.#consumerFailed = { error };
      this.#fail(error);
      return;
    }
    if (this.#isComplete) this.#settle(null);
    else {
      this.#drain();
      if (this.#held === null) this.#exchange?.resume();
    }
  }

  /** Ends the call with an error. An answer whose choices have all finished is complete even if the connection then fails. */
  #fail(error: unknown): void {
    if (this.#isSettled) return;
    if (this.#consumerFailed !== null) {
      this.#settle(this.#consumerFailed.error);
      return;
    }
    if (this.#answer.isFinished && !this.#isComplete) {
      try {
        this.#complete();
      } catch (thrown) {
        this.#settle(thrown);
      }
      return;
    }
    const { usageSoFar } = this.#answer;
    const isFirst = (usageSoFar?.outTokens ?? 0) === 0;
    const known = error instanceof ReportedError ? reportedErrorOf(error, this.#options.request, isFirst) : error;
    // A request that the server rejects is not charged.
    const isCharged = known instanceof EngineError && known.code !== "bad_input" && known.code !== "context_overflow";
    this.#settle(isCharged && usageSoFar !== null ? withUsage(known, usageSoFar) : known);
  }

  /** Resolves or rejects the call once. `error` null: success. */
  #settle(error: unknown): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#cancelTail?.();
    if (error === null) {
      this.#exchange?.discardRest();
      this.#resolve();
    } else {
      this.#exchange?.cancel();
      this.#reject(error);
    }
  }
}
