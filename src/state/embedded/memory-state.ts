import type { Clock } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { State } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock.js";
import { migrate } from "./database/migrations.js";
import {
  createRunBatch,
  openSqlite,
  type RunBatch,
  rollBack,
  type SqliteDatabase,
  sqliteCode,
  sqliteCodes,
} from "./database/sqlite.js";
import { errorOf, type UsageSettlement } from "./database/worker-link.js";
import { StoreTime } from "./ledger.js";
import { createStores } from "./state.js";
import { createVerbs, type DeliveryBounds, deliveryBounds, type StoreVerbs } from "./verbs.js";

export interface MemoryStateDeps extends Partial<DeliveryBounds> {
  /** Default: the system's. */
  readonly clock?: Clock;
}

/** State in an SQLite database in memory (`state.durability: none`), for tests and demonstrations. */
export function openMemoryState({ clock = createSystemClock(), ...bounds }: MemoryStateDeps = {}): State {
  const link = new MemoryLink({ ...deliveryBounds, ...bounds });
  const time = new StoreTime(clock, 0);
  return {
    ...createStores({ link, clock, time, former: [], running: null, endpointCounts: [] }),
    kind: "volatile",
    backup: null,
    health: async () => ({
      ok: true,
      latencyMs: 0,
      durability: "none",
      writeFault: null,
      warnings: ["State is kept in memory and is lost at the next start. Remove state.durability: none to keep it."],
    }),
    close: async () => link.close(),
  };
}

/** Size at which writes fail. Mostly unreceived deliveries, about a kilobyte each. */
const defaultMemoryMaxMib = 1_024;
const pagesPerMib = 256;

/**
 * The verbs of the store on a database in memory, run synchronously in this thread: there is no disk to wait for, and a
 * worker thread would cost more than the work.
 */
export class MemoryLink {
  readonly #db: SqliteDatabase;
  readonly #verbs: StoreVerbs;
  readonly #run: RunBatch;
  readonly #memoryMaxMib: number;

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
    this.#writeCollected();
    const [outcome] = this.#run([{ verb, values }], true);
    if (outcome?.ok) return outcome.value as never;
    if (outcome?.sqlite === sqliteCodes.FULL) throw this.#isFull();
    throw errorOf(outcome ?? { ok: false, message: "the store gave no answer", sqlite: null });
  }

  readonly write = this.read;
  readonly writeUnsynced = this.read;

  /** Adds to sums that are written before the next verb runs: until then a settlement costs no statement. */
  settleUsage(settlement: UsageSettlement, _nowMs: number, endedAtMs: number): boolean {
    this.#verbs.addUsage(settlement, endedAtMs);
    return false;
  }

  close(): void {
    this.#db.close();
  }

  /** In its own transaction, so that a failing verb does not remove the sums. Sums that cannot be written are kept. */
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
