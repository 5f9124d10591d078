import type { Clock, Logger } from "../call/ports.js";
import type { Ledger, Settlement } from "./ledger.js";

/** A settlement that waits for the store. */
export interface SpooledSettlement {
  readonly settlement: Settlement;
  /** The place after it: the argument of `release` once it is settled. */
  readonly end: SpoolSlot;
}

/** Opaque cursor in the spool. */
export type SpoolSlot = string;

/** How full the spool is. */
export interface SpoolLevel {
  /** Settlements that wait. */
  readonly size: number;
  /** At this size no request is admitted. */
  readonly sizeMax: number;
  /** Settlements that no disk has: a crash loses them. */
  readonly memoryOnly: number;
  /** Why the disk cannot be written; null while it can. */
  readonly fault: string | null;
  /** Wall-clock time at which the oldest one's request ended; null when none waits. */
  readonly oldestAtMs: number | null;
}

/** Settlements that wait while the store is unavailable (USE-11). */
export interface SettlementSpool extends SpoolLevel {
  /**
   * Resolves when it is on the disk, or in memory while the disk cannot be written. Rejects with ServiceError
   * `storage_unavailable` far beyond `sizeMax`: requests that were admitted before still find room.
   */
  append(settlement: Settlement): Promise<void>;
  /** The oldest settlements, at most `max`. */
  oldest(max: number): Promise<readonly SpooledSettlement[]>;
  /** Removes all settlements up to the cursor. */
  release(place: SpoolSlot): Promise<void>;
  /** Tries to write to the disk what only memory has. Never rejects. */
  persist(): Promise<void>;
  /** Writes what only memory has wherever it can. Resolves with the number of settlements that are lost. */
  close(): Promise<number>;
}

export interface SpoolReplayDeps {
  /** The store itself, not the ledger that spools for it. */
  readonly ledger: Pick<Ledger, "settle">;
  readonly spool: SettlementSpool;
  readonly clock: Clock;
  readonly log: Logger;
  /** Called when the store has taken settlements again. */
  readonly onAnswered: () => void;
}

/** Interval of looking whether something waits and the store takes it. */
const everyMs = 250;
/** Settlements in flight: enough to fill a group commit or a script call. */
const batchMax = 64;
/** Interval of the log line while usage is in memory alone. */
const reportEveryMs = 60_000;
/** How long a stop waits for a disk or a store that takes what is in memory alone. */
const stopWaitMs = 10_000;

/**
 * Hands spooled settlements to the store, the oldest first, once it answers again (USE-11). The store drops one that it
 * has already by its request id, so an interrupted replay does no harm.
 */
export class SpoolReplay {
  readonly #deps: SpoolReplayDeps;
  #cancelTimer: () => void;
  #turn: Promise<void> = Promise.resolve();
  #closed = false;
  #reportedAtMs = Number.NEGATIVE_INFINITY;

  constructor(deps: SpoolReplayDeps) {
    this.#deps = deps;
    this.#cancelTimer = this.#later();
  }

  /** Waits for the running turn, and up to 10 s for the last settlement that is in memory alone (E-21). */
  async close(): Promise<void> {
    const { spool, clock } = this.#deps;
    const untilMs = clock.monotonic() + stopWaitMs;
    this.#cancelTimer();
    this.#closed = true;
    await this.#turn;
    while (spool.memoryOnly > 0 && clock.monotonic() < untilMs) {
      this.#report();
      await this.#replayAll();
      await spool.persist();
      if (spool.memoryOnly > 0) await new Promise<void>((resolve) => clock.after(everyMs, resolve));
    }
  }

  #later(): () => void {
    return this.#deps.clock.after(everyMs, () => {
      this.#turn = this.#step().finally(() => {
        if (!this.#closed) this.#cancelTimer = this.#later();
      });
    });
  }

  async #step(): Promise<void> {
    this.#report();
    await this.#replayAll(() => this.#closed);
    const { spool } = this.#deps;
    // The spool itself notices a disk that can be written again only when something is appended.
    if (spool.memoryOnly > 0 && !this.#closed) await spool.persist();
  }

  #report(): void {
    const { spool, clock, log } = this.#deps;
    if (spool.memoryOnly === 0 || clock.monotonic() - this.#reportedAtMs < reportEveryMs) return;
    this.#reportedAtMs = clock.monotonic();
    log.error(
      { settlements: spool.memoryOnly, fault: spool.fault },
      "the usage of finished requests is in memory only: make the data folder writable before a restart",
    );
  }

  /** Never rejects. What fails stays in the spool; the circuit breaker logs that the store is unavailable. */
  async #replayAll(isCancelled = (): boolean => false): Promise<void> {
    const { spool, log } = this.#deps;
    const before = spool.size;
    if (before === 0) return;
    try {
      while (!isCancelled() && (await this.#replayBatch())) {}
    } catch (err) {
      log.debug({ err, waiting: spool.size }, "spooled settlements could not be replayed; retrying");
      return;
    }
    if (spool.size === 0) log.info({ settlements: before }, "spool is empty again");
  }

  async #replayBatch(): Promise<boolean> {
    const { ledger, spool, onAnswered } = this.#deps;
    const batch = await spool.oldest(batchMax);
    const last = batch.at(-1);
    if (last === undefined) return false;
    await Promise.all(batch.map(({ settlement }) => ledger.settle(settlement)));
    onAnswered();
    await spool.release(last.end);
    return true;
  }
}
