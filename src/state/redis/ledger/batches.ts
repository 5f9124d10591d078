import { loadScript } from "../connection/client.js";

/** The scripts of the ledger. Servers load them before the first call, because requests wait for these. */
export const ledgerScripts = {
  admit: loadScript("admit", ["prelude", "windows"]),
  settle: loadScript("settle", ["prelude", "windows", "deliveries", "events"]),
  chargeRefused: loadScript("charge-refused", ["prelude", "windows"]),
  resetWindow: loadScript("reset-window", ["prelude", "windows"]),
  inspect: loadScript("inspect", ["prelude", "windows"]),
  renew: loadScript("renew", ["prelude"]),
  sweep: loadScript("sweep", ["prelude"]),
  forget: loadScript("forget", ["prelude"]),
};

interface Waiting<I, O> {
  readonly item: I;
  resolve(answer: O): void;
  reject(error: unknown): void;
}

/** Maximum number of items in one script call, which blocks the server for about half a millisecond. */
const batchMax = 64;

/**
 * Combines the items of one turn of the event loop into one call per shard. A script call costs the client and the server
 * as much as the decision about several requests, and under load many requests arrive in one turn.
 *
 * The calls are sent at the end of the turn, after all ready sockets were read. A microtask would run after each socket, so
 * every batch would have only one item.
 *
 * Each turn uses a new map: V8 links the table of a cleared map to its next table, so the garbage of one turn would keep
 * the garbage of all later turns until the next full collection.
 */
export class Batches<I, O> {
  readonly #run: (shard: number, items: readonly I[]) => Promise<readonly O[]>;
  readonly #turn: TurnBatch;
  #waiting: Map<number, Waiting<I, O>[]> | null = null;

  /** `run` returns one answer for each item, in the order of the items; when it rejects, all items of the call are rejected. */
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

/** Sends the calls of all batches together at the end of this turn of the event loop. */
export class TurnBatch {
  readonly #together: (send: () => void) => void;
  #sends: (() => void)[] = [];

  /** `together` calls its function synchronously and sends the calls within it in one write. */
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

/** The distinct keys of one script call. Items refer to them by their index, from 1 as in Lua. */
export class KeyList {
  readonly #names: string[];
  readonly #indexes = new Map<string, number>();

  /** `fixed`: the keys at fixed indexes of the script. */
  constructor(fixed: readonly string[]) {
    this.#names = [...fixed];
  }

  get names(): readonly string[] {
    return this.#names;
  }

  indexOf(name: string): number {
    const known = this.#indexes.get(name);
    if (known !== undefined) return known;
    const index = this.#names.push(name);
    this.#indexes.set(name, index);
    return index;
  }
}
