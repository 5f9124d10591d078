import { useState } from "preact/hooks";
import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { call } from "../../lib/api.js";
import { wholeNumber } from "../../lib/format.js";
import { go, PageLink, useLocation } from "../../lib/location.js";
import { useLiveData } from "../../lib/use-data.js";
import { Empty, Loading, Problem } from "../../ui/feedback.js";
import { type Column, Pager, Table } from "../../ui/table.js";
import { Moment } from "../../ui/values.js";
import { canRetry, type DeliveryQuery, isFiltered, listRequest, queryOf, statusOf } from "./delivery.js";
import { DeliveryFilter, useEndpoints } from "./delivery-filter.js";
import { DeliveryState, DeliveryView, NextAttempt } from "./delivery-view.js";
import { Replay } from "./replay.js";
import { Retry } from "./retry.js";
import "./deliveries.css";

/** The list of deliveries, or one of them with `?id=`. */
export function Deliveries() {
  const id = useLocation().query.get("id") ?? "";
  return id === "" ? <DeliveryList /> : <DeliveryView key={id} id={id} />;
}

const pageSize = 50;

function DeliveryList() {
  const { query: address } = useLocation();
  const query = queryOf(address);
  const pageToken = address.get("page") ?? "";
  const [retried, setRetried] = useState<DeliveryJson | null>(null);
  const [isReplaying, setReplaying] = useState(false);
  const endpoints = useEndpoints(query.account);
  const { value, error, reload } = useLiveData(
    (signal) =>
      call("unified.webhook.v1.DeliveryService/ListDeliveries", listRequest(query, pageToken, pageSize), signal),
    [JSON.stringify(query), pageToken],
    ({ deliveries = [] }) => deliveries.some((delivery) => statusOf(delivery).isOpen),
  );
  const deliveries = value?.deliveries ?? [];
  return (
    <div class="stack">
      <DeliveryFilter query={query} endpoints={endpoints} onFilter={(chosen) => go("deliveries", { ...chosen })} />
      <div class="row spread">
        <Summary deliveries={deliveries} />
        <button type="button" onClick={() => setReplaying(true)}>
          Replay deliveries
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

/** Announced when it changes, because the list refreshes by itself. */
function Summary({ deliveries }: { readonly deliveries: readonly DeliveryJson[] }) {
  const open = deliveries.filter((delivery) => statusOf(delivery).isOpen).length;
  const failed = deliveries.filter(({ state }) => state === "permanently_failed").length;
  return (
    <p class="faint delivery-summary" role="status">
      {deliveries.length > 0 && `${deliveries.length} shown, ${open} in progress, ${failed} permanently failed`}
    </p>
  );
}

function NoDeliveries({ filtered, hasMore }: { readonly filtered: boolean; readonly hasMore: boolean }) {
  if (hasMore) return <Empty>No matches on this page. The next page continues the search.</Empty>;
  if (filtered) return <Empty>No deliveries match this filter.</Empty>;
  return (
    <Empty>
      No deliveries yet. Each event creates one delivery for every endpoint subscribed to it: add an endpoint under
      Webhooks, or with <code>uis webhooks add --url https://… --events request.completed</code>, then send a request.
    </Empty>
  );
}

interface DeliveryTableProps {
  readonly deliveries: readonly DeliveryJson[];
  /** Kept in the URL of a delivery, so that its back link leads to the same list. */
  readonly query: DeliveryQuery;
  /** Endpoints to show by URL; others are shown by id. */
  readonly endpoints: readonly WebhookEndpointJson[];
  readonly onRetry: (delivery: DeliveryJson) => void;
}

function DeliveryTable({ deliveries, query, endpoints, onRetry }: DeliveryTableProps) {
  const urls = new Map(endpoints.map(({ id = "", url = "" }) => [id, url]));
  const columns: readonly Column<DeliveryJson>[] = [
    {
      title: "Event",
      cell: ({ id = "", eventType = "" }) => (
        <PageLink page="deliveries" query={{ ...query, id }} label={`${eventType}, delivery ${id}`}>
          {eventType}
        </PageLink>
      ),
    },
    { title: "Created", cell: ({ createdAt }) => <Moment at={createdAt} /> },
    { title: "Endpoint", cell: ({ endpointId = "" }) => <code>{urls.get(endpointId) ?? endpointId}</code> },
    { title: "Account", cell: ({ account }) => account },
    { title: "Status", cell: (delivery) => <DeliveryState delivery={delivery} /> },
    { title: "Attempts", isNumber: true, cell: ({ attemptsMade }) => wholeNumber(attemptsMade) },
    { title: "Next attempt", cell: ({ nextAttemptAt }) => <NextAttempt at={nextAttemptAt} /> },
    { title: "", cell: (delivery) => <RetryButton delivery={delivery} onRetry={onRetry} /> },
  ];
  return <Table caption="Deliveries, newest first" columns={columns} rows={deliveries} keyOf={({ id = "" }) => id} />;
}

interface RetryButtonProps {
  readonly delivery: DeliveryJson;
  readonly onRetry: (delivery: DeliveryJson) => void;
}

function RetryButton({ delivery, onRetry }: RetryButtonProps) {
  if (!canRetry(delivery) || delivery.state === "delivered") return null;
  return (
    <div class="actions">
      <button
        type="button"
        aria-label={`Retry ${delivery.eventType ?? ""}, ${delivery.id ?? ""}`}
        onClick={() => onRetry(delivery)}
      >
        Retry
      </button>
    </div>
  );
}
