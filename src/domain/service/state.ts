import type { SettingsStore } from "../access/administrator.js";
import type { AuditLog } from "../access/audit.js";
import type { KeyStore } from "../access/key-store.js";
import type { SessionStore } from "../access/sessions.js";
import type { ChangeFeed, Clock, Logger } from "../call/ports.js";
import type { CatalogStore } from "../catalog/catalog.js";
import type { DrainStore } from "../catalog/drained-deployments.js";
import type { ThresholdStore } from "../events/events.js";
import type { Ledger } from "../metering/ledger.js";
import type { LimitStore } from "../metering/limit-book.js";
import type { UsageReader } from "../metering/usage-store.js";
import type { RequestLogStore } from "../request-log/request-log-store.js";
import type { ResponseStore } from "../responses/response-store.js";
import type { UpstreamStore } from "../upstreams/upstream-store.js";
import type { DeliveryQueue } from "../webhooks/delivery-queue.js";
import type { EndpointStore } from "../webhooks/endpoint-store.js";
import type { ClockHealth } from "./clock-jumps.js";

/** Health of the store, for `/ready` with detail and `uis doctor`. */
export interface StateHealth {
  /** Whether the store answers. */
  readonly ok: boolean;
  /** Round trip to the store. */
  readonly latencyMs: number;
  /** Acknowledged writes that a power failure can lose: none, those of up to one second, or all. */
  readonly durability: "every-write" | "one-second" | "none";
  /** Why the last write failed although reads still work; null when writes work. */
  readonly writeFault: string | null;
  readonly clock: ClockHealth;
  /** Problems for the operator, each with its remedy. */
  readonly warnings: readonly string[];
}

/** All ports that one driver implements over one connection. */
export interface State {
  readonly kind: "embedded" | "redis" | "volatile";
  readonly keys: KeyStore;
  readonly sessions: SessionStore;
  readonly settings: SettingsStore;
  readonly audit: AuditLog;
  readonly catalog: CatalogStore;
  readonly ledger: Ledger;
  readonly limits: LimitStore;
  readonly usage: UsageReader;
  readonly thresholds: ThresholdStore;
  readonly upstreams: UpstreamStore;
  readonly drains: DrainStore;
  readonly requestLogs: RequestLogStore;
  readonly responses: ResponseStore;
  readonly endpoints: EndpointStore;
  readonly deliveries: DeliveryQueue;
  readonly changes: ChangeFeed;
  /** Store time in wall-clock milliseconds, shared by all replicas; interpolated between answers of a shared store. */
  now(): number;
  /** Number of processes that share the store, as last known; 1 or more. */
  replicas(): number;
  /**
   * Deletes at most `max` expired records and returns their number. Stops after `budgetMs` of the store's time, but not
   * before 200 records, so that a result below 200 means that no expired records are left. Default: no time limit. Rejects
   * with `storage_unavailable`.
   */
  purge(max: number, budgetMs?: number): Promise<number>;
  /** Writes a consistent copy while the service runs; null for a store that has its own means of backup. */
  readonly backup: ((file: string) => Promise<void>) | null;
  /** Never rejects: a store that does not answer is `ok: false`. */
  health(): Promise<StateHealth>;
  /**
   * Why writes are rejected because the open files are no longer those in the data folder; null if they are, or if the store
   * has no files.
   */
  fileFault(): string | null;
  /** Waits for pending writes; later ones reject with `storage_unavailable`. */
  close(): Promise<void>;
}

/**
 * Error for a store that cannot be opened. The message names the cause, `fix` the remedy. The start fails with exit code 2.
 */
export class StateOpenError extends Error {
  override readonly name = "StateOpenError";
  readonly fix: string;
  constructor(message: string, fix: string, options?: ErrorOptions) {
    super(message, options);
    this.fix = fix;
  }
}

/** Interval of the purge. */
const everyMs = 30_000;
/** Maximum time for which one step occupies the store, and thus for which a request waits for it. */
const stepBudgetMs = 10;
/**
 * Pause between two steps. Deleting takes at most a tenth of the store's time, which is enough to delete records many times
 * faster than requests add them.
 */
const stepEveryMs = 100;
/** Maximum records of one step; more than a store can delete in the time of a step. */
const stepMax = 50_000;
/** A step that deletes fewer records than this has left none, as State.purge promises. */
const backlogMin = 200;

interface PurgeDeps {
  readonly state: Pick<State, "purge">;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Deletes expired records in steps of bounded time, one after the other while there is a backlog (E-34). Returns the
 * function that stops it. After an outage of the store it tries again later.
 */
export function startPurge({ state, clock, log }: PurgeDeps): () => void {
  let isStopped = false;
  let cancelTimer = clock.after(stepEveryMs, () => void step());
  async function step(): Promise<void> {
    let purged = 0;
    try {
      purged = await state.purge(stepMax, stepBudgetMs);
    } catch (err) {
      log.warn({ err }, "expired records could not be deleted; retrying later");
    }
    if (!isStopped) cancelTimer = clock.after(purged >= backlogMin ? stepEveryMs : everyMs, () => void step());
  }
  return () => {
    isStopped = true;
    cancelTimer();
  };
}
