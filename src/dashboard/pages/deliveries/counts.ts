import { call } from "../../lib/api.js";
import { slowRefreshMs, useData } from "../../lib/use-data.js";
import { type DeliveryQuery, deliveryStatuses, listRequest } from "./delivery.js";

/** Deliveries of one state are counted up to this number, so that a count costs one page of the list. */
const countedMax = 100;

/** Numbers of deliveries by state as text, “100+” if there are more; without those that are not read yet. */
export type DeliveryCounts = Readonly<Record<string, string>>;

/** Counts the deliveries of each state that pass the rest of the filter. */
export function useDeliveryCounts(query: DeliveryQuery, round: number): DeliveryCounts {
  const rest = { ...query, state: "" };
  const { value } = useData((signal) => readCounts(rest, signal), [JSON.stringify(rest), round], slowRefreshMs);
  return value ?? {};
}

async function readCounts(query: DeliveryQuery, signal: AbortSignal): Promise<DeliveryCounts> {
  const counts = Object.keys(deliveryStatuses).map(async (state) => {
    const request = listRequest({ ...query, state }, "", countedMax);
    const { deliveries = [], nextPageToken } = await call(
      "unified.webhook.v1.DeliveryService/ListDeliveries",
      request,
      signal,
    );
    return [state, nextPageToken === undefined ? String(deliveries.length) : `${deliveries.length}+`] as const;
  });
  return Object.fromEntries(await Promise.all(counts));
}
