import { setImmediate } from "node:timers/promises";
import type { SettingsStore } from "../../domain/access/administrator.js";
import type { AuditLog } from "../../domain/access/audit.js";
import type { KeyStore } from "../../domain/access/key-store.js";
import type { SessionStore } from "../../domain/access/sessions.js";
import { LocalChanges } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { ThresholdStore } from "../../domain/events/threshold.js";
import type { LimitStore } from "../../domain/metering/limit-book.js";
import {
  type UsageCursor,
  UsageGrouping,
  type UsageGroupsQuery,
  type UsageReader,
} from "../../domain/metering/usage-store.js";
import type { State } from "../../domain/service/state.js";
import type { EndpointStore } from "../../domain/webhooks/endpoint-store.js";
import { createDeliveryQueue, DueListeners } from "./delivery-queue.js";
import { EmbeddedLedger, type EmbeddedLedgerDeps } from "./ledger.js";
import type { UsageSlice } from "./usage.js";
import type { StoreLink } from "./worker-link.js";

export interface StoresDeps extends Omit<EmbeddedLedgerDeps, "onDue"> {
  /** Number of endpoints of each account that has any. */
  readonly endpointCounts: readonly (readonly [string, number])[];
}

/** The stores that the database in a file and the one in memory share: verbs, and a notification after each change. */
export function createStores(deps: StoresDeps): Omit<State, "kind" | "backup" | "health" | "close"> {
  const { link, time, endpointCounts } = deps;
  const changes = new LocalChanges();
  const due = new DueListeners();
  return {
    keys: createKeyStore(link, changes),
    sessions: createSessionStore(link, changes),
    settings: createSettingsStore(link, changes),
    audit: createAuditLog(link),
    catalog: { firstSeen: (ids, nowMs) => link.write("firstSeen", ids, nowMs) },
    ledger: new EmbeddedLedger({ ...deps, onDue: () => due.tell() }),
    limits: createLimitStore(link, changes),
    usage: createUsageReader(link),
    thresholds: createThresholdStore(link, changes),
    endpoints: createEndpointStore({ link, changes, due, counts: endpointCounts }),
    deliveries: createDeliveryQueue(link, time, due),
    changes,
    now: () => time.now(),
    replicas: () => 1,
    purge: (max) => link.write("purge", max, time.now()),
  };
}

function createKeyStore(link: StoreLink, changes: LocalChanges): KeyStore {
  const tell = (id: string): void => changes.tell({ kind: "key", id });
  return {
    findByHash: (hash) => link.read("findKeyByHash", hash),
    find: (id) => link.read("findKey", id),
    async insert(record) {
      await link.write("insertKey", record);
      tell(record.id);
    },
    async insertFirst(record) {
      const isFirst = await link.write("insertFirstKey", record);
      if (isFirst) tell(record.id);
      return isFirst;
    },
    list: (page) => link.read("listKeys", page),
    async revoke(id, atMs) {
      const record = await link.write("revokeKey", id, atMs);
      if (record !== null) tell(id);
      return record;
    },
    async update(id, change) {
      const record = await link.write("updateKey", id, change);
      if (record !== null) tell(id);
      return record;
    },
    async rotate(id, successor, oldExpiresAtMs) {
      const isRotated = await link.write("rotateKey", id, successor, oldExpiresAtMs);
      if (isRotated) {
        tell(id);
        tell(successor.id);
      }
      return isRotated;
    },
    touch: (id, atMs) => link.write("touchKey", id, atMs),
  };
}

function createSessionStore(link: StoreLink, changes: LocalChanges): SessionStore {
  const tell = (id: string): void => changes.tell({ kind: "session", id });
  return {
    async insert(session) {
      await link.write("insertSession", session);
      tell(session.id);
    },
    findByHash: (tokenHash) => link.read("findSession", tokenHash),
    async touch(id, lastSeenAtMs, expiresAtMs) {
      if (await link.write("touchSession", id, lastSeenAtMs, expiresAtMs)) tell(id);
    },
    list: (nowMs) => link.read("listSessions", nowMs),
    async remove(id) {
      const isRemoved = await link.write("removeSession", id);
      if (isRemoved) tell(id);
      return isRemoved;
    },
    async removeOthers(user, keepId) {
      const removed = await link.write("removeOtherSessions", user, keepId);
      for (const id of removed) tell(id);
      return removed.length;
    },
  };
}

function createSettingsStore(link: StoreLink, changes: LocalChanges): SettingsStore {
  return {
    get: (name) => link.read("getSetting", name),
    async put(name, value, expectedVersion) {
      const isPut = await link.write("putSetting", name, value, expectedVersion);
      if (isPut) changes.tell({ kind: "settings" });
      return isPut;
    },
    async remove(name) {
      await link.write("removeSetting", name);
      changes.tell({ kind: "settings" });
    },
  };
}

function createAuditLog(link: StoreLink): AuditLog {
  return {
    append: (record) => link.write("appendAudit", record),
    list: (page) => link.read("listAudit", page),
  };
}

function createLimitStore(link: StoreLink, changes: LocalChanges): LimitStore {
  return {
    list: () => link.read("listLimits"),
    async put(limits) {
      const isPut = await link.write("putLimits", limits);
      if (!isPut) throw new ServiceError("storage_unavailable", "The store holds its 10000 limits.");
      changes.tell({ kind: "limits" });
    },
    async remove(owner) {
      const isRemoved = await link.write("removeLimits", owner);
      if (isRemoved) changes.tell({ kind: "limits" });
      return isRemoved;
    },
  };
}

function createThresholdStore(link: StoreLink, changes: LocalChanges): ThresholdStore {
  return {
    list: () => link.read("listThresholds"),
    async insert(threshold) {
      await link.write("insertThreshold", threshold);
      changes.tell({ kind: "thresholds" });
    },
    async replace(threshold) {
      const isReplaced = await link.write("replaceThreshold", threshold);
      if (isReplaced) changes.tell({ kind: "thresholds" });
      return isReplaced;
    },
    async remove(id) {
      const isRemoved = await link.write("removeThreshold", id);
      if (isRemoved) changes.tell({ kind: "thresholds" });
      return isRemoved;
    },
  };
}

/** Adds groups up in slices, one at a time over all queries, so that settlements run in between. */
function createUsageReader(link: StoreLink): UsageReader {
  let last: Promise<unknown> = Promise.resolve();
  const slice = (query: UsageGroupsQuery, after: UsageCursor | null, signal: AbortSignal): Promise<UsageSlice> => {
    const next = last.then(async () => {
      signal.throwIfAborted();
      // The database in memory answers at once: other work gets its turn.
      await setImmediate();
      return await link.read("usageSlice", { ...query, after });
    });
    last = next.catch(() => {});
    return next;
  };
  return {
    rows: (range) => link.read("usageRows", range),
    async groups(query, signal) {
      const grouping = new UsageGrouping(query);
      let after = query.after;
      do {
        const { groups, end } = await slice(query, after, signal);
        for (const group of groups) grouping.add(group);
        const page = end === null ? grouping.rest() : grouping.page(end.startMs);
        if (page !== null) return page;
        after = end;
      } while (after !== null);
      return grouping.rest();
    },
    accounts: () => link.read("accounts"),
    used: (account, scope, period) => link.read("used", account, scope, period),
  };
}

interface EndpointStoreDeps {
  readonly link: StoreLink;
  readonly changes: LocalChanges;
  /** Told of each change: what waits for an endpoint that takes nothing more is ended by the next claim. */
  readonly due: DueListeners;
  /** How many endpoints each account has now. Nobody else writes the file, so they stay known. */
  readonly counts: readonly (readonly [string, number])[];
}

function createEndpointStore({ link, changes, due, counts }: EndpointStoreDeps): EndpointStore {
  const countByAccount = new Map(counts);
  const tell = (id: string): void => changes.tell({ kind: "endpoint", id });
  const count = (account: string, delta: 1 | -1): void => {
    countByAccount.set(account, (countByAccount.get(account) ?? 0) + delta);
    if (countByAccount.get(account) === 0) countByAccount.delete(account);
  };
  return {
    async insert(endpoint, max) {
      const isInserted = await link.write("insertEndpoint", endpoint, max);
      if (isInserted) {
        count(endpoint.account, 1);
        tell(endpoint.id);
      }
      return isInserted;
    },
    async replace(endpoint) {
      const outcome = await link.write("replaceEndpoint", endpoint);
      if (outcome === "replaced") {
        tell(endpoint.id);
        due.tell();
      }
      return outcome;
    },
    find: (account, id) => link.read("findEndpoint", account, id),
    list: (account) => link.read("listEndpoints", account),
    async remove(account, id) {
      const isRemoved = await link.write("removeEndpoint", account, id);
      if (isRemoved) {
        count(account, -1);
        tell(id);
        due.tell();
      }
      return isRemoved;
    },
    mayHaveAny: (account) => countByAccount.has(account),
  };
}
