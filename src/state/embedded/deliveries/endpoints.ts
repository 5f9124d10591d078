import type { StateChange } from "../../../domain/call/ports.js";
import type { AttemptOutcome } from "../../../domain/webhooks/delivery-queue.js";
import {
  type EndpointHealth,
  type EndpointRecord,
  type EndpointStore,
  freshHealth,
  type KeptEndpoint,
} from "../../../domain/webhooks/endpoint-store.js";
import { type CollectedRows, columnsOf, integer, type SqliteDatabase, type SqlRow, text } from "../database/sqlite.js";
import type { StoreLink } from "../database/worker-link.js";

const columns = columnsOf<EndpointRecord>(
  "account, id, url, description, status, disabled_reason, max_in_flight, version, created_at_ms, " +
    "updated_at_ms, events_json, secrets_json",
);

const healthColumns = columnsOf<EndpointHealth>(
  "last_success_at_ms, last_failure_at_ms, failing_since_ms, failures_in_row, permanently_failed",
);

/** Webhook endpoints in the database. */
export function createEndpointVerbs(db: SqliteDatabase, queues: QueueRows, health: EndpointHealthRows) {
  const insert = db.prepare(`INSERT INTO endpoints (${columns.names}) VALUES (${columns.placeholders})`);
  const update = db.prepare(
    `UPDATE endpoints SET (${columns.names}) = (${columns.placeholders})
     WHERE account = ? AND id = ? AND version = ? - 1`,
  );
  const resetHealth = db.prepare(
    `UPDATE endpoints SET last_success_at_ms = NULL, last_failure_at_ms = NULL, failing_since_ms = NULL,
       failures_in_row = 0, permanently_failed = 0
     WHERE id = ?`,
  );
  const list = db.prepare("SELECT * FROM endpoints WHERE account = ? ORDER BY created_at_ms, id");
  const find = db.prepare("SELECT * FROM endpoints WHERE account = ? AND id = ?");
  const remove = db.prepare("DELETE FROM endpoints WHERE account = ? AND id = ?");
  const countOf = db.prepare("SELECT count(*) AS endpoints FROM endpoints WHERE account = ?");
  const counts = db.prepare("SELECT account, count(*) AS endpoints FROM endpoints GROUP BY account");
  return {
    reads: {
      findEndpoint(account: string, id: string): KeptEndpoint | null {
        const row = find.get(account, id);
        return row === undefined ? null : toKept(row);
      },
      listEndpoints: (account: string): readonly KeptEndpoint[] => list.all(account).map(toKept),
      /** Accounts that have endpoints, each with the number of its endpoints. */
      endpointCounts: (): readonly (readonly [string, number])[] =>
        counts.all().map((row) => [text(row, "account"), integer(row, "endpoints")] as const),
    },
    writes: {
      insertEndpoint(endpoint: EndpointRecord, max: number): boolean {
        if (Number(countOf.get(endpoint.account)?.["endpoints"] ?? 0) >= max) return false;
        insert.run(...columns.values(endpoint));
        return true;
      },
      replaceEndpoint(endpoint: EndpointRecord): Awaited<ReturnType<EndpointStore["replace"]>> {
        const { account, id, status, version } = endpoint;
        const before = find.get(account, id);
        if (before === undefined) return "unknown";
        if (Number(update.run(...columns.values(endpoint), account, id, version).changes) === 0) return "changed";
        health.write();
        if (status === "enabled" && text(before, "status") === "disabled") resetHealth.run(id);
        queues.wake(id);
        return "replaced";
      },
      removeEndpoint(account: string, id: string): boolean {
        health.write();
        if (Number(remove.run(account, id).changes) === 0) return false;
        queues.wake(id);
        return true;
      },
    },
  };
}

interface EndpointStoreDeps {
  readonly link: StoreLink<ReturnType<typeof createEndpointVerbs>>;
  readonly notify: (change: StateChange) => void;
  /**
   * Listeners that are notified of each change: the next claim ends the deliveries of an endpoint that was disabled or
   * removed.
   */
  readonly due: DueListeners;
  /** Number of endpoints of each account that has endpoints. It is exact, because no other process writes the file. */
  readonly counts: readonly (readonly [string, number])[];
}

export function createEndpointStore({ link, notify, due, counts }: EndpointStoreDeps): EndpointStore {
  const countByAccount = new Map(counts);
  const changed = (id: string): void => notify({ kind: "endpoint", id });
  const count = (account: string, delta: 1 | -1): void => {
    const after = (countByAccount.get(account) ?? 0) + delta;
    if (after === 0) countByAccount.delete(account);
    else countByAccount.set(account, after);
  };
  return {
    async insert(endpoint, max) {
      const isInserted = await link.write("insertEndpoint", endpoint, max);
      if (isInserted) {
        count(endpoint.account, 1);
        changed(endpoint.id);
      }
      return isInserted;
    },
    async replace(endpoint) {
      const outcome = await link.write("replaceEndpoint", endpoint);
      if (outcome === "replaced") {
        changed(endpoint.id);
        due.notify();
      }
      return outcome;
    },
    find: (account, id) => link.read("findEndpoint", account, id),
    list: (account) => link.read("listEndpoints", account),
    async remove(account, id) {
      const isRemoved = await link.write("removeEndpoint", account, id);
      if (isRemoved) {
        count(account, -1);
        changed(id);
        due.notify();
      }
      return isRemoved;
    },
    mayHaveAny: (account) => countByAccount.has(account),
  };
}

function toKept(row: SqlRow): KeptEndpoint {
  const record = columns.read(row);
  const status = record.status === "enabled" ? "enabled" : "disabled";
  return { record: { ...record, status }, health: healthColumns.read(row) };
}

/** Delivery statistics of endpoints. Changes of one transaction are added up and written at its end. */
export function createEndpointHealth(db: SqliteDatabase, collected: CollectedRows) {
  const { names, placeholders } = healthColumns;
  const read = db.prepare(`SELECT ${names} FROM endpoints WHERE id = ?`);
  const write = db.prepare(`UPDATE endpoints SET (${names}) = (${placeholders}) WHERE id = ?`);
  const changed = collected.of<EndpointHealth>((all) => {
    for (const [id, health] of all) write.run(...healthColumns.values(health), id);
  });
  const find = (endpointId: string): EndpointHealth | null => {
    const row = read.get(endpointId);
    return row === undefined ? null : healthColumns.read(row);
  };
  return {
    /** Returns the health after an attempt with this outcome. For a removed endpoint it is the health without any attempts. */
    note(endpointId: string, { state }: AttemptOutcome, nowMs: number): EndpointHealth {
      const before = changed.get(endpointId) ?? find(endpointId);
      if (before === null) return freshHealth;
      const { lastFailureAtMs } = before;
      const after =
        state === "delivered"
          ? { ...freshHealth, lastFailureAtMs, lastSuccessAtMs: nowMs }
          : afterFailure(before, state, nowMs);
      changed.set(endpointId, after);
      return after;
    },
    write: changed.write,
  };
}

export type EndpointHealthRows = ReturnType<typeof createEndpointHealth>;

function afterFailure(before: EndpointHealth, state: AttemptOutcome["state"], nowMs: number): EndpointHealth {
  return {
    lastSuccessAtMs: before.lastSuccessAtMs,
    lastFailureAtMs: nowMs,
    failingSinceMs: before.failingSinceMs ?? nowMs,
    failuresInRow: before.failuresInRow + 1,
    permanentlyFailed: before.permanentlyFailed + (state === "permanently_failed" ? 1 : 0),
  };
}

/** A time that is later than all others. */
export const never = Number.MAX_SAFE_INTEGER;

/** Change of the queue of an endpoint. */
export interface QueueChange {
  readonly endpointId: string;
  readonly account: string;
  /** Deliveries that became open, less those that ended. */
  readonly opened: number;
  /** Earliest time at which a claim must examine the queue; 0: the next claim does. */
  readonly readyAtMs: number;
}

/**
 * One row for each endpoint that has or had deliveries, with the number of open deliveries and the time before which none
 * can be claimed. With the number, checking the maximum and reading the backlog take the same time for any number of
 * deliveries. Every step that opens or ends a delivery notes it here. The notes of one transaction are added up and written
 * at its end.
 */
export function createQueueRows(db: SqliteDatabase, collected: CollectedRows) {
  const write = db.prepare(
    `INSERT INTO queues (endpoint_id, account, open, ready_at_ms, turn) VALUES (?, ?, ?, ?, 0)
     ON CONFLICT (endpoint_id) DO UPDATE SET open = open + excluded.open,
       ready_at_ms = min(ready_at_ms, excluded.ready_at_ms)`,
  );
  const sumOpen = db.prepare("SELECT coalesce(sum(open), 0) AS open FROM queues WHERE account = ?");
  const wake = db.prepare("UPDATE queues SET ready_at_ms = 0 WHERE endpoint_id = ?");
  const removeEmpty = db.prepare("DELETE FROM queues WHERE open = 0 AND endpoint_id NOT IN (SELECT id FROM endpoints)");
  const noted = collected.of<QueueChange>((changes) => {
    for (const { endpointId, account, opened, readyAtMs } of changes.values()) {
      write.run(endpointId, account, opened, readyAtMs);
    }
  });
  return {
    note(change: QueueChange): void {
      const before = noted.get(change.endpointId);
      if (before !== undefined) {
        const opened = before.opened + change.opened;
        const readyAtMs = Math.min(before.readyAtMs, change.readyAtMs);
        noted.set(change.endpointId, { ...change, opened, readyAtMs });
      } else noted.set(change.endpointId, change);
    },
    writeNoted: noted.write,
    /** Number of open deliveries of an account, including notes that are not written yet. */
    openOf(account: string): number {
      const row = sumOpen.get(account);
      let open = row === undefined ? 0 : integer(row, "open");
      for (const change of noted.values()) if (change.account === account) open += change.opened;
      return open;
    },
    /** Makes the next claim examine the queue, because its endpoint has changed. */
    wake: (endpointId: string): void => void wake.run(endpointId),
    /** Removes the rows of removed endpoints without open deliveries. */
    removeEmpty: (): void => void removeEmpty.run(),
  };
}

export type QueueRows = ReturnType<typeof createQueueRows>;

/** Listeners in this process for deliveries that became due. */
export class DueListeners {
  readonly #listeners = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    // A new function each time, so that the same listener can subscribe twice and unsubscribe separately.
    const subscribed = (): void => listener();
    this.#listeners.add(subscribed);
    return () => void this.#listeners.delete(subscribed);
  };

  readonly notify = (): void => {
    for (const listener of this.#listeners) listener();
  };
}
