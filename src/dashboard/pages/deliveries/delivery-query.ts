/** The filter of the list, as it stands in the address of the page. */
import type { ListDeliveriesRequestJson } from "../../../../gen/unified/webhook/v1/delivery_service_pb.js";

/** Texts; empty: it does not filter. Times are ISO 8601. */
export interface DeliveryQuery {
  readonly state: string;
  readonly type: string;
  readonly account: string;
  readonly endpoint: string;
  readonly from: string;
  readonly before: string;
  readonly replay: string;
}

const names = ["state", "type", "account", "endpoint", "from", "before", "replay"] as const;

export const noFilter: DeliveryQuery = queryOf(new URLSearchParams());

export function queryOf(address: URLSearchParams): DeliveryQuery {
  const of = (name: string): string => address.get(name) ?? "";
  return {
    state: of("state"),
    type: of("type"),
    account: of("account"),
    endpoint: of("endpoint"),
    from: of("from"),
    before: of("before"),
    replay: of("replay"),
  };
}

export function isFiltered(query: DeliveryQuery): boolean {
  return names.some((name) => query[name] !== "");
}

export function listRequest(query: DeliveryQuery, pageToken: string, pageSize: number): ListDeliveriesRequestJson {
  const { state, type, account, endpoint, from, before, replay } = query;
  return {
    pageSize,
    pageToken,
    state,
    account,
    endpointId: endpoint,
    eventType: type,
    replayId: replay,
    ...(from === "" ? {} : { createdFrom: from }),
    ...(before === "" ? {} : { createdBefore: before }),
  };
}
