import type { EngineError, GenEvent } from "../../domain/engine/engine.js";

interface Reader {
  resolve(result: IteratorResult<GenEvent, undefined>): void;
  reject(error: EngineError): void;
}

/**
 * Queue between a call's events and the code that iterates them. It needs no bound of its own: an answer has at most as
 * many events as the model's context has tokens.
 */
export class EventStream implements AsyncIterableIterator<GenEvent> {
  readonly #onLeave: () => void;
  #waiting: GenEvent[] = [];
  #next = 0;
  #reader: Reader | null = null;
  #end: { readonly error: EngineError | null } | null = null;

  /** `onLeave` is called when the reader stops before the end. */
  constructor(onLeave: () => void) {
    this.#onLeave = onLeave;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  push(event: GenEvent): void {
    if (this.#reader === null) this.#waiting.push(event);
    else this.#takeReader(this.#reader).resolve({ value: event, done: false });
  }

  /** Ends it after the events that wait; with an error, which is then thrown. */
  end(error: EngineError | null): void {
    this.#end = { error };
    if (this.#reader !== null) this.#settle(this.#takeReader(this.#reader), error);
  }

  /** For one reader that awaits each event before it asks for the next. */
  next(): Promise<IteratorResult<GenEvent, undefined>> {
    const event = this.#waiting[this.#next];
    if (event !== undefined) {
      this.#next += 1;
      if (this.#next === this.#waiting.length) {
        this.#waiting = [];
        this.#next = 0;
      }
      return Promise.resolve({ value: event, done: false });
    }
    return new Promise((resolve, reject) => {
      const reader = { resolve, reject };
      if (this.#end === null) this.#reader = reader;
      else this.#settle(reader, this.#end.error);
    });
  }

  return(): Promise<IteratorResult<GenEvent, undefined>> {
    this.#waiting = [];
    this.#next = 0;
    if (this.#end === null) {
      this.#end = { error: null };
      this.#onLeave();
    }
    return Promise.resolve({ value: undefined, done: true });
  }

  #takeReader(reader: Reader): Reader {
    this.#reader = null;
    return reader;
  }

  #settle(reader: Reader, error: EngineError | null): void {
    // An error is thrown once; whoever asks again is at the end.
    this.#end = { error: null };
    if (error === null) reader.resolve({ value: undefined, done: true });
    else reader.reject(error);
  }
}
