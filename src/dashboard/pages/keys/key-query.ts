/** The filter of the list of keys, as it stands in the address of the page. */
import type { KeyStateJson, ListApiKeysRequestJson } from "../../../../gen/unified/admin/v1/api_key_service_pb.js";

/** Texts; empty: it does not filter. */
export interface KeyQuery {
  readonly search: string;
  readonly account: string;
  readonly state: string;
}

const states: Readonly<Record<string, KeyStateJson>> = {
  active: "KEY_STATE_ACTIVE",
  expired: "KEY_STATE_EXPIRED",
  revoked: "KEY_STATE_REVOKED",
};

/** What can be chosen, with its words. */
export const stateTitles = { "": "any", active: "active", expired: "expired", revoked: "revoked" } as const;

export function queryOf(address: URLSearchParams): KeyQuery {
  const of = (name: string): string => address.get(name) ?? "";
  return { search: of("search"), account: of("account"), state: of("state") in states ? of("state") : "" };
}

export function isFiltered({ search, account, state }: KeyQuery): boolean {
  return search !== "" || account !== "" || state !== "";
}

export function listRequest(query: KeyQuery, pageToken: string, pageSize: number): ListApiKeysRequestJson {
  const state = states[query.state];
  const { search, account } = query;
  return { search, account, pageSize, pageToken, ...(state === undefined ? {} : { state }) };
}
