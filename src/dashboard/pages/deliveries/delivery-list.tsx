import { useState } from "preact/hooks";
import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import { call } from "../../api.js";
import { go, usePlace } from "../../location.js";
import { Empty, Loading, Problem } from "../../ui/feedback.js";
import { Pager } from "../../ui/table.js";
import { DeliveryFilter } from "./delivery-filter.js";
import { isFiltered, listRequest, queryOf } from "./delivery-query.js";
import { DeliveryTable } from "./delivery-table.js";
import { stateOf } from "./delivery-words.js";
import { Replay } from "./replay.js";
import { Retry } from "./retry.js";
import { useEndpoints } from "./use-endpoints.js";
import { useLive } from "./use-live.js";

const pageSize = 50;

/** The deliveries that the filter lets through, kept up to date. */
export function DeliveryList() {
  const { query: address } = usePlace();
  const query = queryOf(address);
  const pageToken = address.get("page") ?? "";
  const [retried, setRetried] = useState<DeliveryJson | null>(null);
  const [isReplaying, setReplaying] = useState(false);
  const endpoints = useEndpoints(query.account);
  const { value, error, reload } = useLive(
    (signal) =>
      call("unified.webhook.v1.DeliveryService/ListDeliveries", listRequest(query, pageToken, pageSize), signal),
    [JSON.stringify(query), pageToken],
    ({ deliveries = [] }) => deliveries.some((delivery) => stateOf(delivery).isOpen),
  );
  const deliveries = value?.deliveries ?? [];
  return (
    <div class="stack">
      <DeliveryFilter query={query} endpoints={endpoints} onFilter={(chosen) => go("deliveries", { ...chosen })} />
      <div class="row spread">
        <Summary deliveries={deliveries} />
        <button type="button" onClick={() => setReplaying(true)}>
          Replay a range
        </button>
      </div>
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && deliveries.length === 0 && (
        <NoDeliveries filtered={isFiltered(query)} hasMore={value.nextPageToken !== undefined} />
      )}
      {deliveries.length > 0 && (
        <DeliveryTable deliveries={deliveries} query={query} endpoints={endpoints} onRetry={setRetried} />
      )}
      <Pager
        token={pageToken}
        nextToken={value === null ? null : (value.nextPageToken ?? "")}
        onPage={(page) => go("deliveries", { ...query, page })}
      />
      {retried !== null && <Retry delivery={retried} onDone={reload} onClose={() => setRetried(null)} />}
      {isReplaying && <Replay query={query} onQueued={reload} onClose={() => setReplaying(false)} />}
    </div>
  );
}

/** Read out when it changes: the list does so by itself. */
function Summary({ deliveries }: { readonly deliveries: readonly DeliveryJson[] }) {
  const open = deliveries.filter((delivery) => stateOf(delivery).isOpen).length;
  const failed = deliveries.filter(({ state }) => state === "permanently_failed").length;
  return (
    <p class="faint delivery-summary" role="status">
      {deliveries.length > 0 && `Shown: ${deliveries.length}; on their way: ${open}; failed for good: ${failed}`}
    </p>
  );
}

function NoDeliveries({ filtered, hasMore }: { readonly filtered: boolean; readonly hasMore: boolean }) {
  if (hasMore) return <Empty>No delivery that fits so far. The next page looks further.</Empty>;
  if (filtered) return <Empty>No delivery fits this filter.</Empty>;
  return (
    <Empty>
      Nothing was delivered yet. Each event makes a delivery for every endpoint that wants it: add one under Webhooks,
      or with <code>uis webhooks add --url https://… --events request.completed</code>, and make a request.
    </Empty>
  );
}
