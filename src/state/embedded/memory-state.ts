import type { Clock } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { State } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock-and-ids.js";
import { migrate } from "./database/migrations.js";
import { openSqlite, type SqliteDatabase, sqliteCode, sqliteCodes } from "./database/sqlite.js";
import { type DeliveryBounds, deliveryBounds } from "./deliveries/delivery-rows.js";
import { StoreTime } from "./ledger.js";
import type { SettledUsage } from "./settlements.js";
import { createStores } from "./stores.js";
import { createRunBatch, createVerbs, type Reads, type RunBatch, rollBack, type Verbs, type Writes } from "./verbs.js";
import { errorOf, type StoreLink } from "./worker-link.js";

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

/** Beyond it nothing more is written: mostly deliveries that nobody receives, about a kilobyte each. */
const defaultMemoryMaxMib = 1_024;
const pagesPerMib = 256;

/**
 * The verbs of the store on a database in memory, run synchronously in this thread: there is no disk to wait for, and a
 * worker thread would cost more than the work.
 */
export class MemoryLink implements StoreLink {
  readonly #db: SqliteDatabase;
  readonly #verbs: Verbs;
  readonly #run: RunBatch;
  readonly #memoryMaxMib: number;
  #hasAdded = false;

  /** Throws StateOpenError when the runtime has no SQLite. */
  constructor(bounds: DeliveryBounds, memoryMaxMib = defaultMemoryMaxMib) {
    this.#memoryMaxMib = memoryMaxMib;
    this.#db = openSqlite(":memory:");
    this.#db.prepare(`PRAGMA max_page_count = ${memoryMaxMib * pagesPerMib}`).get();
    migrate(this.#db, Date.now());
    this.#verbs = createVerbs(this.#db, bounds);
    this.#run = createRunBatch(this.#db, this.#verbs);
  }

  async read<V extends keyof Reads>(verb: V, ...values: Parameters<Reads[V]>): Promise<ReturnType<Reads[V]>> {
    return this.#runOne(verb, values) as ReturnType<Reads[V]>;
  }

  async write<V extends keyof Writes>(verb: V, ...values: Parameters<Writes[V]>): Promise<ReturnType<Writes[V]>> {
    return this.#runOne(verb, values) as ReturnType<Writes[V]>;
  }

  writeUnsynced<V extends keyof Writes>(verb: V, ...values: Parameters<Writes[V]>): Promise<ReturnType<Writes[V]>> {
    return this.write(verb, ...values);
  }

  /** Adds to sums that are written before the next verb runs: in between, a settlement costs no statement. */
  settleUsage([, account, keyId, model, promptTokens, completionTokens, cachedTokens, costNano, , atMs]: SettledUsage) {
    this.#hasAdded = true;
    const delta = { account, keyId, model, promptTokens, completionTokens, cachedTokens, costNano };
    this.#verbs.deferred.addUsage(delta, atMs);
    return false;
  }

  close(): void {
    this.#db.close();
  }

  #runOne(verb: keyof Reads | keyof Writes, values: readonly unknown[]): unknown {
    this.#writeAdded();
    const [outcome] = this.#run([{ verb, values }], true);
    if (outcome?.ok) return outcome.value;
    if (outcome?.sqlite === sqliteCodes.FULL) throw this.#isFull();
    throw errorOf(outcome ?? { ok: false, message: "the store gave no answer", sqlite: null });
  }

  /** In its own transaction, so that a verb that fails does not remove the sums. What cannot be written is kept. */
  #writeAdded(): void {
    if (!this.#hasAdded) return;
    this.#db.exec("BEGIN");
    try {
      this.#verbs.deferred.write();
      this.#db.exec("COMMIT");
      this.#hasAdded = false;
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
