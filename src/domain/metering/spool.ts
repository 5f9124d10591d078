import type { Clock, Logger } from "../call/ports.js";
import type { Ledger, Settlement } from "./ledger.js";

/** A settlement that waits for the store. */
export interface SpooledSettlement {
  readonly settlement: Settlement;
  /** The place after it: what `release` is told when it is settled. */
  readonly end: SpoolPlace;
}

/** A place in the spool; only the spool knows what it means. */
export type SpoolPlace = string;

/** Where settlements wait while the store is away (USE-11). */
export interface SettlementSpool {
  /**
   * Resolves when it is on the disk, or in memory where the disk cannot be written. Rejects with ServiceError
   * `storage_unavailable` when there is no room.
   */
  append(settlement: Settlement): Promise<void>;
  /** The oldest ones, at most `max`; empty when none waits. */
  oldest(max: number): Promise<readonly SpooledSettlement[]>;
  /** All up to this place are settled. */
  release(place: SpoolPlace): Promise<void>;
  readonly size: number;
  /** How many fit. */
  readonly sizeMax: number;
  /** Wall-clock time at which the oldest one's request ended; null when none waits. */
  readonly oldestAtMs: number | null;
  close(): Promise<void>;
}

export interface SpoolReplayDeps {
  /** The store itself, not what spools for it. */
  readonly ledger: Pick<Ledger, "settle">;
  readonly spool: SettlementSpool;
  readonly clock: Clock;
  readonly log: Logger;
  /** The store has taken some: others need not spool any more. */
  readonly onAnswered: () => void;
}

/** How often it looks whether something waits and the store takes it. */
const everyMs = 250;
/** Settlements that are under way at once: enough to fill a group commit or a script call. */
const batchMax = 64;

/**
 * Hands spooled settlements to the store, the oldest first, once it answers again (USE-11). One that the store has
 * already is dropped by its request id, so a replay that was cut off does no harm.
 */
export class SpoolReplay {
  readonly #deps: SpoolReplayDeps;
  #cancelTimer: () => void;
  #turn: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(deps: SpoolReplayDeps) {
    this.#deps = deps;
    this.#cancelTimer = this.#later();
  }

  /** Waits for the turn that is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelTimer();
    await this.#turn;
  }

  #later(): () => void {
    return this.#deps.clock.after(everyMs, () => {
      this.#turn = this.#replayAll().finally(() => {
        if (!this.#closed) this.#cancelTimer = this.#later();
      });
    });
  }

  /** Never rejects. What fails stays where it is; the store's own gate tells the log that it is away. */
  async #replayAll(): Promise<void> {
    const { spool, log } = this.#deps;
    const before = spool.size;
    if (before === 0) return;
    try {
      while (!this.#closed && (await this.#replayBatch())) {}
    } catch (err) {
      log.debug({ err, waiting: spool.size }, "spooled settlements wait on");
      return;
    }
    if (spool.size === 0) log.info({ settlements: before }, "the spool is empty again");
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
