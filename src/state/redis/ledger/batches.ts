interface Waiting<I, O> {
  readonly item: I;
  resolve(answer: O): void;
  reject(error: unknown): void;
}

/** As many as one script call decides: it holds up the server for about half a millisecond. */
const batchMax = 64;

/**
 * Puts what is asked for in one turn of the event loop into one call per shard. A call of a script costs the client and
 * the server as much as deciding several requests, and under load many requests arrive in one turn.
 *
 * They are sent at the end of the turn, after all sockets that were ready have been read. A microtask would come after
 * each socket, and nothing would ever be together.
 */
export class Batches<I, O> {
  readonly #run: (shard: number, items: readonly I[]) => Promise<readonly O[]>;
  readonly #waiting = new Map<number, Waiting<I, O>[]>();
  #isScheduled = false;

  /** `run` answers each item, in their order; when it rejects, all items of the call do. */
  constructor(run: (shard: number, items: readonly I[]) => Promise<readonly O[]>) {
    this.#run = run;
  }

  ask(shard: number, item: I): Promise<O> {
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(shard);
      if (waiting === undefined) this.#waiting.set(shard, [{ item, resolve, reject }]);
      else waiting.push({ item, resolve, reject });
      if (this.#isScheduled) return;
      this.#isScheduled = true;
      setImmediate(() => this.#flush());
    });
  }

  #flush(): void {
    this.#isScheduled = false;
    const all = [...this.#waiting];
    this.#waiting.clear();
    for (const [shard, waiting] of all) {
      for (let from = 0; from < waiting.length; from += batchMax) {
        void this.#send(shard, waiting.slice(from, from + batchMax));
      }
    }
  }

  async #send(shard: number, batch: readonly Waiting<I, O>[]): Promise<void> {
    try {
      const answers = await this.#run(
        shard,
        batch.map(({ item }) => item),
      );
      batch.forEach(({ resolve, reject }, i) => {
        const answer = answers[i];
        if (answer === undefined) reject(new Error(`the store answered ${answers.length} of ${batch.length} requests`));
        else resolve(answer);
      });
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}
