/** Deliveries as text, and the list filter. */
import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import type { ListDeliveriesRequestJson } from "../../../../gen/unified/webhook/v1/delivery_service_pb.js";

interface DeliveryStatus {
  readonly title: string;
  readonly tone: "good" | "bad" | "busy" | "plain";
  /** Whether the service will still change the status without a user's action. */
  readonly isOpen: boolean;
}

export const deliveryStatuses: Readonly<Record<string, DeliveryStatus>> = {
  pending: { title: "Pending", tone: "plain", isOpen: true },
  delivery_attempted: { title: "Delivery attempted", tone: "busy", isOpen: true },
  awaiting_retry: { title: "Awaiting retry", tone: "busy", isOpen: true },
  delivered: { title: "Delivered", tone: "good", isOpen: false },
  permanently_failed: { title: "Permanently failed", tone: "bad", isOpen: false },
};

/** Unknown states, e.g. of a newer service, are shown by their names. */
export function statusOf({ state = "" }: DeliveryJson): DeliveryStatus {
  return deliveryStatuses[state] ?? { title: state.replaceAll("_", " "), tone: "plain", isOpen: false };
}

const reasons: Readonly<Record<string, string>> = {
  retries_used_up: "All retries failed",
  manual_retry_failed: "Manual retry failed",
  endpoint_disabled: "Endpoint disabled",
  endpoint_deleted: "Endpoint deleted",
  overflow: "Too many pending deliveries in the account",
};

/** Why the delivery has permanently failed; empty if it has not. */
export function reasonOf({ reason = "" }: DeliveryJson): string {
  return reasons[reason] ?? reason.replaceAll("_", " ");
}

/** Who requested a manual attempt; empty for scheduled ones. */
export function requestedBy({ by = "" }: { readonly by?: string }): string {
  return by === "admin_token" ? "admin token" : by.replace(":", " ");
}

/** Whether a manual retry may be offered. A disabled endpoint can be enabled again, a deleted one cannot. */
export function canRetry({ state, reason, purged = false }: DeliveryJson): boolean {
  return !purged && reason !== "endpoint_deleted" && state !== "delivery_attempted" && state !== "pending";
}

/** The list filter, kept in the page's URL; empty values do not filter. Times are ISO 8601. */
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
