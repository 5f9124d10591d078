import type { LocalChanges } from "../../domain/call/change-feed.js";
import type { EndpointStore } from "../../domain/webhooks/endpoint-store.js";
import type { DueListeners } from "./deliveries/due-listeners.js";
import type { StoreLink } from "./worker-link.js";

export interface EndpointStoreDeps {
  readonly link: StoreLink;
  readonly changes: LocalChanges;
  /** Told of each change: what waits for an endpoint that takes nothing more is ended by the next claim. */
  readonly due: DueListeners;
  /** How many endpoints each account has now. Nobody else writes the file, so they stay known. */
  readonly counts: readonly (readonly [string, number])[];
}

export function createEndpointStore({ link, changes, due, counts }: EndpointStoreDeps): EndpointStore {
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
