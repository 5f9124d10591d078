/**
 * Bounded queue with backpressure for one producer and one consumer. `push` never loses an item: a producer that sees
 * `full` awaits `room()` before it continues. A consumer that stops iterating closes the queue and so releases the producer.
 */
export class BoundedQueue<T> implements AsyncIterable<T> {
  readonly #weightMax: number;
  #items: { readonly item: T; readonly weight: number }[] = [];
  #first = 0;
  #weight = 0;
  #closed = false;
  #error: unknown;
  #consumer: (() => void) | undefined;
  #producer: (() => void) | undefined;

  /** `weightMax` is in the producer's unit, bytes for streams. */
  constructor(weightMax: number) {
    this.#weightMax = weightMax;
  }

  get full(): boolean {
    return this.#weight >= this.#weightMax && !this.#closed;
  }

  push(item: T, weight: number): void {
    if (this.#closed) return;
    this.#items.push({ item, weight });
    this.#weight += weight;
    this.#wakeConsumer();
  }

  /** Resolves when the queue is below its bound again, or closed. */
  room(): Promise<void> {
    if (!this.full) return Promise.resolve();
    return new Promise((resolve) => {
      this.#producer = resolve;
    });
  }

  /** Ends the queue after the items in it; with an error the consumer's iteration throws it. The first close counts. */
  close(error?: unknown): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#error = error;
    this.#wakeConsumer();
    this.#wakeProducer();
  }

  [Symbol.asyncIterator](): AsyncIterator<T> {
    return {
      next: () => this.#next(),
      return: () => {
        this.close();
        this.#items = [];
        this.#first = 0;
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }

  async #next(): Promise<IteratorResult<T>> {
    for (;;) {
      const entry = this.#items[this.#first];
      if (entry !== undefined) {
        this.#drop();
        this.#weight -= entry.weight;
        if (!this.full) this.#wakeProducer();
        return { done: false, value: entry.item };
      }
      if (this.#closed) {
        if (this.#error !== undefined) throw this.#error;
        return { done: true, value: undefined };
      }
      await new Promise<void>((resolve) => {
        this.#consumer = resolve;
      });
    }
  }

  /** Removes the first item; the array is cut rarely, because shift() on a long one moves all the others. */
  #drop(): void {
    this.#first += 1;
    if (this.#first < this.#items.length) return;
    this.#items = [];
    this.#first = 0;
  }

  #wakeConsumer(): void {
    const wake = this.#consumer;
    this.#consumer = undefined;
    wake?.();
  }

  #wakeProducer(): void {
    const wake = this.#producer;
    this.#producer = undefined;
    wake?.();
  }
}
