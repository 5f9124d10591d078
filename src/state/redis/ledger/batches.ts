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
 *
 * Each turn has a map of its own: a map that is cleared goes on pointing from what it held to what it will hold, and the
 * garbage of one turn then keeps that of all later ones until the next full collection.
 */
export class Batches<I, O> {
  readonly #run: (shard: number, items: readonly I[]) => Promise<readonly O[]>;
  readonly #turn: TurnBatch;
  #waiting: Map<number, Waiting<I, O>[]> | null = null;

  /** `run` answers each item, in their order; when it rejects, all items of the call do. */
  constructor(turn: TurnBatch, run: (shard: number, items: readonly I[]) => Promise<readonly O[]>) {
    this.#turn = turn;
    this.#run = run;
  }

  ask(shard: number, item: I): Promise<O> {
    return new Promise((resolve, reject) => {
      const all = this.#waiting ?? this.#begin();
      const waiting = all.get(shard);
      if (waiting === undefined) all.set(shard, [{ item, resolve, reject }]);
      else waiting.push({ item, resolve, reject });
    });
  }

  #begin(): Map<number, Waiting<I, O>[]> {
    const all = new Map<number, Waiting<I, O>[]>();
    this.#waiting = all;
    this.#turn.atEnd(() => {
      this.#waiting = null;
      this.#flush(all);
    });
    return all;
  }

  #flush(all: ReadonlyMap<number, readonly Waiting<I, O>[]>): void {
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

/** What is to be sent at the end of this turn of the event loop: all of it together, from whichever batches it comes. */
export class TurnBatch {
  readonly #together: (send: () => void) => void;
  #sends: (() => void)[] = [];

  /** `together` calls what it is given at once; it makes one write of what is sent meanwhile. */
  constructor(together: (send: () => void) => void) {
    this.#together = together;
  }

  /** `send` must not throw. */
  atEnd(send: () => void): void {
    this.#sends.push(send);
    if (this.#sends.length === 1) setImmediate(() => this.#end());
  }

  #end(): void {
    const sends = this.#sends;
    this.#sends = [];
    this.#together(() => {
      for (const send of sends) send();
    });
  }
}

/** The keys of one script call, each of them once; items name them by their place, as Lua counts: from 1. */
export class KeyList {
  readonly #names: string[];
  readonly #places = new Map<string, number>();

  /** `fixed` are the keys whose places the script knows. */
  constructor(fixed: readonly string[]) {
    this.#names = [...fixed];
  }

  get names(): readonly string[] {
    return this.#names;
  }

  placeOf(name: string): number {
    const known = this.#places.get(name);
    if (known !== undefined) return known;
    const place = this.#names.push(name);
    this.#places.set(name, place);
    return place;
  }
}
