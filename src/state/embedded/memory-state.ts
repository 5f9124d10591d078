import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock, Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { State } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock.js";
import { migrate } from "./database/migrations.js";
import type { NewSettlement, SettledRow, WaitingSettlement } from "./database/settlement-row.js";
import {
  createRunBatch,
  errorOf,
  type Outcome,
  openSqlite,
  type Request,
  type RunBatch,
  rollBack,
  type SqliteDatabase,
  sqliteCode,
  sqliteCodes,
} from "./database/sqlite.js";
import { settleAll, waitingFor } from "./database/worker-link.js";
import { clockHealth, createStoreClock, createStores } from "./state.js";
import { createVerbs, type DeliveryBounds, deliveryBounds, type StoreVerbs } from "./verbs.js";

export interface MemoryStateDeps extends Partial<DeliveryBounds> {
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Logger for jumps of the clock; default: jumps are counted but not logged. */
  readonly log?: Logger;
  /** Maximum time by which the store's time may be ahead of the clock; default 5 minutes. */
  readonly clockLeadMaxMs?: number;
}

const noLog: Logger = { debug() {}, info() {}, warn() {}, error() {} };
const volatileWarning =
  "State is kept in memory and is lost at the next start. Remove state.durability: none to keep it.";

/** State in an SQLite database in memory (`state.durability: none`), for tests and demonstrations. */
export function openMemoryState(deps: MemoryStateDeps = {}): State {
  const { clock = createSystemClock(), log = noLog, clockLeadMaxMs, ...bounds } = deps;
  const link = new MemoryLink({ ...deliveryBounds, ...bounds });
  const { time, jumps } = createStoreClock({ clock, log, link, seenAtMs: 0, clockLeadMaxMs });
  return {
    ...createStores({ link, clock, time, jumps, former: [], running: null, endpointCounts: [] }),
    kind: "volatile",
    backup: null,
    async health() {
      const { clock: jumped, clockWarnings } = clockHealth(time, jumps);
      const warnings = [volatileWarning, ...clockWarnings];
      return { ok: true, latencyMs: 0, durability: "none", writeFault: null, clock: jumped, warnings };
    },
    fileFault: () => null,
    close: async () => link.close(),
  };
}

/** Size at which writes fail. Most of it are deliveries that no receiver has accepted, about a kilobyte each. */
const defaultMemoryMaxMib = 1_024;
const pagesPerMib = 256;

/** A verb that waits for the end of this turn of the event loop. */
interface WaitingWrite {
  readonly request: Request;
  resolve(value: never): void;
  reject(error: unknown): void;
}

/**
 * The verbs of the store on a database in memory, run synchronously in this thread: there is no disk to wait for, and a
 * worker thread would cost more than the work. The writes of one turn of the event loop form one transaction, because a
 * transaction costs as much as a small write. A read runs immediately, after the writes that wait.
 */
export class MemoryLink {
  readonly #db: SqliteDatabase;
  readonly #verbs: StoreVerbs;
  readonly #run: RunBatch;
  readonly #memoryMaxMib: number;
  #writes: WaitingWrite[] = [];
  #lastScan: Promise<unknown> = Promise.resolve();
  /** Settlements that have other effects than usage. */
  #settlements: WaitingSettlement[] = [];

  /** Throws StateOpenError when the runtime has no SQLite. */
  constructor(bounds: DeliveryBounds, memoryMaxMib = defaultMemoryMaxMib) {
    this.#memoryMaxMib = memoryMaxMib;
    this.#db = openSqlite(":memory:");
    this.#db.prepare(`PRAGMA max_page_count = ${memoryMaxMib * pagesPerMib}`).get();
    migrate(this.#db, Date.now());
    this.#verbs = createVerbs(this.#db, bounds);
    this.#run = createRunBatch(this.#db, this.#verbs);
  }

  async read(verb: string, ...values: readonly unknown[]): Promise<never> {
    this.#runWaiting();
    this.#writeCollected();
    return this.#valueOf(this.#run([{ verb, values }], true)[0]);
  }

  /** Runs in a turn of the event loop of its own. */
  scan(verb: string, ...values: readonly unknown[]): Promise<never> {
    const read = this.#lastScan.then(() => nextTurn()).then(() => this.read(verb, ...values));
    this.#lastScan = read.catch(() => {});
    return read;
  }

  write(verb: string, ...values: readonly unknown[]): Promise<never> {
    return new Promise((resolve, reject) => {
      this.#runSoon();
      this.#writes.push({ request: { verb, values }, resolve, reject });
    });
  }

  readonly writeUnsynced = this.write;

  /** A settlement with only usage is added to sums in memory, which are written before the next verb runs. */
  settle(added: NewSettlement): Promise<SettledRow | null> | null {
    const { settlement, endedAtMs, wantsSums } = added;
    if (settlement.event === null && settlement.thresholds.length === 0 && !wantsSums) {
      this.#verbs.addUsage(settlement, endedAtMs);
      return null;
    }
    return new Promise((resolve, reject) => {
      this.#runSoon();
      this.#settlements.push(waitingFor(added, resolve, reject));
    });
  }

  close(): void {
    this.#runWaiting();
    this.#db.close();
  }

  #runSoon(): void {
    if (this.#writes.length + this.#settlements.length === 0) setImmediate(() => this.#runWaiting());
  }

  /** Never throws: a fault rejects the writes. */
  #runWaiting(): void {
    const waiting: WaitingWrite[] = this.#writes;
    if (this.#settlements.length > 0) waiting.push(settleAll(this.#settlements));
    if (waiting.length === 0) return;
    this.#writes = [];
    this.#settlements = [];
    try {
      this.#writeCollected();
      const outcomes = this.#run(
        waiting.map(({ request }) => request),
        true,
      );
      for (const [position, write] of waiting.entries()) this.#end(write, outcomes[position]);
    } catch (error) {
      for (const { reject } of waiting) reject(error);
    }
  }

  #end({ resolve, reject }: WaitingWrite, outcome: Outcome | undefined): void {
    try {
      resolve(this.#valueOf(outcome));
    } catch (error) {
      reject(error);
    }
  }

  #valueOf(outcome: Outcome | undefined): never {
    if (outcome?.ok) return outcome.value as never;
    if (outcome?.sqlite === sqliteCodes.FULL) throw this.#isFull();
    throw errorOf(outcome ?? { ok: false, message: "the store gave no answer", sqlite: null });
  }

  /**
   * Writes the sums in a separate transaction, so that a failing verb does not discard them. Sums that cannot be written
   * are kept.
   */
  #writeCollected(): void {
    const { collected } = this.#verbs;
    if (collected.isEmpty) return;
    this.#db.exec("BEGIN");
    try {
      collected.write();
      this.#db.exec("COMMIT");
    } catch (error) {
      rollBack(this.#db);
      throw sqliteCode(error) === sqliteCodes.FULL ? this.#isFull() : error;
    }
  }

  #isFull(): ServiceError {
    return new ServiceError(
      "storage_unavailable",
      `The state in memory has reached its ${this.#memoryMaxMib} MiB. Remove state.durability: none to keep it on disk.`,
    );
  }
}
