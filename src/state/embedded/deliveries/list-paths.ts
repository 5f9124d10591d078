import type { EventType } from "../../../domain/events/event.js";
import type { DeliveryState } from "../../../domain/webhooks/delivery.js";
import type { DeliveryFilter } from "../../../domain/webhooks/delivery-queue.js";
import type { SqlValue } from "../sqlite-binding.js";

/** A way through deliveries in the order of their numbers, which leaves out many that a filter does not want. */
export interface ListPath {
  readonly source: string;
  /** Column with the delivery's number. */
  readonly number: string;
  /** On the key of the path, which is parameter 1. */
  readonly condition: string;
}

const by = (index: string, condition: string): ListPath => ({
  source: `deliveries INDEXED BY ${index}`,
  number: "number",
  condition,
});

export const listPaths = {
  held: { source: "leases", number: "delivery_number", condition: "ends_at_ms > ?1" },
  replay: by("deliveries_by_replay", "replay_id = ?1"),
  troubled: by("deliveries_troubled", "state IN ('awaiting_retry', 'permanently_failed') AND state = ?1"),
  open: by("deliveries_open", "due_at_ms IS NOT NULL AND ?1 IS NOT NULL"),
  rareType: by(
    "deliveries_of_rare_types",
    "event_type IN ('request.failed', 'usage.threshold_reached') AND event_type = ?1",
  ),
  endpoint: by("deliveries_by_endpoint", "endpoint_id = ?1"),
  account: by("deliveries_by_account", "account = ?1"),
  all: { source: "deliveries", number: "number", condition: "?1 IS NULL" },
} satisfies Record<string, ListPath>;

/** States that few deliveries are in at a time, by how they are found. Delivered ones are most of all. */
const pathOfState: Partial<Record<DeliveryState, ListPath>> = {
  delivery_attempted: listPaths.held,
  awaiting_retry: listPaths.troubled,
  permanently_failed: listPaths.troubled,
  pending: listPaths.open,
};

const mostCommonType: EventType = "request.completed";

/** The narrowest path that leads to everything that the filter wants, and its key. */
export function pathFor(filter: DeliveryFilter, nowMs: number): { readonly path: ListPath; readonly key: SqlValue } {
  const { state, replayId, endpointId, account, eventType } = filter;
  if (replayId !== null) return { path: listPaths.replay, key: replayId };
  const path = state === null ? undefined : pathOfState[state];
  if (path !== undefined) return { path, key: path === listPaths.held ? nowMs : state };
  if (eventType !== null && eventType !== mostCommonType) return { path: listPaths.rareType, key: eventType };
  if (endpointId !== null) return { path: listPaths.endpoint, key: endpointId };
  if (account !== null) return { path: listPaths.account, key: account };
  return { path: listPaths.all, key: null };
}
