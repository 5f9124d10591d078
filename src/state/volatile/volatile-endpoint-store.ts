import type { LocalChanges } from "../../domain/local-changes.js";
import { ServiceError } from "../../domain/service-error.js";
import type { EndpointRecord, EndpointStore } from "../../domain/webhooks/endpoint-store.js";
import type { EventType } from "../../domain/webhooks/event-draft.js";
import { isFull } from "./bounded.js";

const endpointsMax = 10_000;

export interface VolatileEndpointStore extends EndpointStore {
  /** Enabled endpoints that want this type. */
  subscribed(account: string, type: EventType): readonly EndpointRecord[];
}

/** At most 10,000 endpoints; one more is `storage_unavailable`. */
export function createVolatileEndpointStore(changes: LocalChanges): VolatileEndpointStore {
  const byId = new Map<string, EndpointRecord>();
  const byAccount = new Map<string, readonly EndpointRecord[]>();

  const index = (account: string): void => {
    const own = [...byId.values()].filter((endpoint) => endpoint.account === account);
    if (own.length === 0) byAccount.delete(account);
    else
      byAccount.set(
        account,
        own.sort((a, b) => a.createdAtMs - b.createdAtMs || (a.id < b.id ? -1 : 1)),
      );
  };
  const put = (endpoint: EndpointRecord): void => {
    byId.set(endpoint.id, endpoint);
    index(endpoint.account);
    changes.tell({ kind: "endpoint", id: endpoint.id });
  };
  const has = (account: string, id: string): boolean => byId.get(id)?.account === account;

  return {
    async insert(endpoint) {
      if (byId.has(endpoint.id)) throw new ServiceError("conflict", "A webhook endpoint with this id exists.");
      if (byId.size >= endpointsMax) throw isFull(endpointsMax, "webhook endpoints");
      put(endpoint);
    },
    async replace(endpoint) {
      if (!has(endpoint.account, endpoint.id)) return false;
      put(endpoint);
      return true;
    },
    async list(account) {
      return byAccount.get(account) ?? [];
    },
    async remove(account, id) {
      if (!has(account, id)) return false;
      byId.delete(id);
      index(account);
      changes.tell({ kind: "endpoint", id });
      return true;
    },
    mayHaveAny: (account) => byAccount.has(account),
    subscribed: (account, type) =>
      (byAccount.get(account) ?? []).filter(({ status, events }) => status === "enabled" && events.includes(type)),
  };
}
