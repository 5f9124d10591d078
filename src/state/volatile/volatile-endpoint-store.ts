import type { LocalChanges } from "../../domain/call/change-feed.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { EventType } from "../../domain/events/event.js";
import type { AttemptOutcome } from "../../domain/webhooks/delivery-queue.js";
import {
  type EndpointHealth,
  type EndpointRecord,
  type EndpointStore,
  freshHealth,
  type KeptEndpoint,
} from "../../domain/webhooks/endpoint-store.js";
import { isFull } from "./bounded.js";

const endpointsMax = 10_000;

export interface VolatileEndpointStore extends EndpointStore {
  /** Enabled endpoints that want this type. */
  subscribed(account: string, type: EventType): readonly EndpointRecord[];
  get(id: string): EndpointRecord | null;
  /** Counts the end of an attempt; the health after it. Fresh for an endpoint that is gone. */
  noteAttempt(id: string, outcome: AttemptOutcome, atMs: number): EndpointHealth;
}

/** At most 10,000 endpoints; one more is `storage_unavailable`. */
export function createVolatileEndpointStore(changes: LocalChanges): VolatileEndpointStore {
  const byId = new Map<string, KeptEndpoint>();
  /** The oldest first. */
  const idsOf = new Map<string, readonly string[]>();

  const owned = (account: string, id: string): KeptEndpoint | null => {
    const kept = byId.get(id);
    return kept?.record.account === account ? kept : null;
  };
  const list = (account: string): readonly KeptEndpoint[] =>
    (idsOf.get(account) ?? []).flatMap((id) => owned(account, id) ?? []);
  const index = (account: string): void => {
    const own = [...byId.values()].filter(({ record }) => record.account === account).sort(byAge);
    if (own.length === 0) idsOf.delete(account);
    else
      idsOf.set(
        account,
        own.map(({ record }) => record.id),
      );
  };

  return {
    async insert(record, max) {
      const { account, id } = record;
      if (byId.has(id)) throw new ServiceError("conflict", "A webhook endpoint with this id exists.");
      if ((idsOf.get(account)?.length ?? 0) >= max) return false;
      if (byId.size >= endpointsMax) throw isFull(endpointsMax, "webhook endpoints");
      byId.set(id, { record, health: freshHealth });
      index(account);
      changes.tell({ kind: "endpoint", id });
      return true;
    },
    async replace(record) {
      const old = owned(record.account, record.id);
      if (old === null) return "unknown";
      if (old.record.version !== record.version - 1) return "changed";
      const isEnabledAgain = old.record.status === "disabled" && record.status === "enabled";
      byId.set(record.id, { record, health: isEnabledAgain ? freshHealth : old.health });
      changes.tell({ kind: "endpoint", id: record.id });
      return "replaced";
    },
    async find(account, id) {
      return owned(account, id);
    },
    async list(account) {
      return list(account);
    },
    async remove(account, id) {
      if (owned(account, id) === null) return false;
      byId.delete(id);
      index(account);
      changes.tell({ kind: "endpoint", id });
      return true;
    },
    mayHaveAny: (account) => idsOf.has(account),
    subscribed: (account, type) =>
      list(account)
        .map(({ record }) => record)
        .filter(({ status, events }) => status === "enabled" && events.includes(type)),
    get: (id) => byId.get(id)?.record ?? null,
    noteAttempt(id, outcome, atMs) {
      const kept = byId.get(id);
      if (kept === undefined) return freshHealth;
      const health = healthAfter(kept.health, outcome, atMs);
      byId.set(id, { record: kept.record, health });
      return health;
    },
  };
}

function byAge({ record: a }: KeptEndpoint, { record: b }: KeptEndpoint): number {
  return a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1);
}

function healthAfter(health: EndpointHealth, { state }: AttemptOutcome, atMs: number): EndpointHealth {
  if (state === "delivered") return { ...freshHealth, lastSuccessAtMs: atMs, lastFailureAtMs: health.lastFailureAtMs };
  return {
    lastSuccessAtMs: health.lastSuccessAtMs,
    lastFailureAtMs: atMs,
    failingSinceMs: health.failingSinceMs ?? atMs,
    failuresInRow: health.failuresInRow + 1,
    permanentlyFailed: health.permanentlyFailed + (state === "permanently_failed" ? 1 : 0),
  };
}
