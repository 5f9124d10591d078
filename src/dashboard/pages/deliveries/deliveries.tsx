import { useState } from "preact/hooks";
import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { call } from "../../lib/api.js";
import { wholeNumber } from "../../lib/format.js";
import { go, PageLink, useLocation } from "../../lib/location.js";
import { slowRefreshMs, useData, useLiveData } from "../../lib/use-data.js";
import { AdminOnly } from "../../ui/admin-only.js";
import { Empty, Loading, Problem } from "../../ui/feedback.js";
import { Check } from "../../ui/form.js";
import { type MenuItem, pageItem, RowMenu } from "../../ui/menu.js";
import { type Column, Pager, Table } from "../../ui/table.js";
import { type Tab, Tabs } from "../../ui/tabs.js";
import { Moment } from "../../ui/values.js";
import {
  canRetry,
  type DeliveryQuery,
  deliveryStatuses,
  isFiltered,
  listRequest,
  queryOf,
  statusOf,
} from "./delivery.js";
import { DeliveryFilter, useEndpoints } from "./delivery-filter.js";
import { DeliveryState, DeliveryView, NextAttempt } from "./delivery-view.js";
import { Replay } from "./replay.js";
import { Retry } from "./retry.js";
import { RetryMany } from "./retry-many.js";
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
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [retried, setRetried] = useState<readonly DeliveryJson[]>([]);
  const [isReplaying, setReplaying] = useState(false);
  const [round, setRound] = useState(0);
  const endpoints = useEndpoints(query.account);
  const counts = useDeliveryCounts(query, round);
  const { value, error, reload } = useLiveData(
    (signal) =>
      call("unified.webhook.v1.DeliveryService/ListDeliveries", listRequest(query, pageToken, pageSize), signal),
    [JSON.stringify(query), pageToken],
    ({ deliveries = [] }) => deliveries.some((delivery) => statusOf(delivery).isOpen),
  );
  const deliveries = value?.deliveries ?? [];
  const chosen = deliveries.filter(({ id = "" }) => selected.has(id));
  const changed = (): void => {
    setSelected(new Set());
    setRound(round + 1);
    reload();
  };
  return (
    <div class="stack">
      <Tabs label="Status" page="deliveries" tabs={tabsOf(query, counts)} />
      <DeliveryFilter query={query} endpoints={endpoints} onFilter={(next) => go("deliveries", { ...next }, true)} />
      <Problem error={error} onRetry={reload} />
      {value === null && error === null && <Loading />}
      {value !== null && deliveries.length === 0 && (
        <NoDeliveries filtered={isFiltered(query)} hasMore={value.nextPageToken !== undefined} />
      )}
      <Selection
        selected={chosen}
        selectable={deliveries.filter(isSelectable)}
        onSelect={setSelected}
        onRetry={() => setRetried(chosen)}
        onReplay={() => setReplaying(true)}
      />
      {deliveries.length > 0 && (
        <DeliveryTable
          deliveries={deliveries}
          query={query}
          endpoints={endpoints ?? []}
          selected={selected}
          onSelect={setSelected}
          onRetry={(delivery) => setRetried([delivery])}
        />
      )}
      <Pager
        token={pageToken}
        nextToken={value === null ? null : (value.nextPageToken ?? "")}
        onPage={(page) => go("deliveries", { ...query, page })}
      />
      <RetryDialog deliveries={retried} onDone={changed} onClose={() => setRetried([])} />
      {isReplaying && <Replay query={query} onQueued={changed} onClose={() => setReplaying(false)} />}
    </div>
  );
}

/** Deliveries of one state are counted up to this number, so that counting reads one page of the list. */
const countedMax = 100;

/** Numbers of deliveries by state as text, “100+” if there are more. States are absent until their count is read. */
type DeliveryCounts = Readonly<Record<string, string>>;

/** Counts the deliveries of each state that pass the rest of the filter. */
function useDeliveryCounts(query: DeliveryQuery, round: number): DeliveryCounts {
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

/** One tab for each state, with the number of deliveries that pass the rest of the filter. */
function tabsOf(query: DeliveryQuery, counts: DeliveryCounts): readonly Tab[] {
  const states = Object.entries(deliveryStatuses).map(([state, { title }]) => [state, title] as const);
  return [["", "All"] as const, ...states].map(([state, title]) => ({
    title,
    count: counts[state] ?? null,
    query: { ...query, state },
    isCurrent: query.state === state,
  }));
}

function isSelectable(delivery: DeliveryJson): boolean {
  return canRetry(delivery) && delivery.state !== "delivered";
}

interface SelectionProps {
  readonly selected: readonly DeliveryJson[];
  /** Deliveries of the page that can be retried. */
  readonly selectable: readonly DeliveryJson[];
  readonly onSelect: (ids: ReadonlySet<string>) => void;
  readonly onRetry: () => void;
  readonly onReplay: () => void;
}

/** Selects all deliveries of the page, and has buttons that retry the selected ones or replay a time range. */
function Selection({ selected, selectable, onSelect, onRetry, onReplay }: SelectionProps) {
  const isAll = selectable.length > 0 && selected.length === selectable.length;
  return (
    <div class="row spread">
      {selectable.length === 0 ? (
        <span />
      ) : (
        <Check isOn={isAll} onChange={() => onSelect(new Set(isAll ? [] : selectable.map(({ id = "" }) => id)))}>
          Select all {wholeNumber(selectable.length)} on this page that can be retried
        </Check>
      )}
      <div class="row">
        <AdminOnly>
          <button type="button" disabled={selected.length === 0} onClick={onRetry}>
            {selected.length === 0 ? "Retry selected" : `Retry ${wholeNumber(selected.length)} selected`}
          </button>
        </AdminOnly>
        <AdminOnly>
          <button type="button" onClick={onReplay}>
            Replay deliveries
          </button>
        </AdminOnly>
      </div>
    </div>
  );
}

interface RetryDialogProps {
  /** The dialog is closed if there are none. */
  readonly deliveries: readonly DeliveryJson[];
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function RetryDialog({ deliveries, onDone, onClose }: RetryDialogProps) {
  const [first] = deliveries;
  if (first === undefined) return null;
  if (deliveries.length === 1) return <Retry delivery={first} onDone={onDone} onClose={onClose} />;
  return <RetryMany deliveries={deliveries} onDone={onDone} onClose={onClose} />;
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
  readonly selected: ReadonlySet<string>;
  readonly onSelect: (ids: ReadonlySet<string>) => void;
  readonly onRetry: (delivery: DeliveryJson) => void;
}

function DeliveryTable({ deliveries, query, endpoints, selected, onSelect, onRetry }: DeliveryTableProps) {
  const urls = new Map(endpoints.map(({ id = "", url = "" }) => [id, url]));
  const toggle = (id: string): void => {
    const ids = new Set(selected);
    if (!ids.delete(id)) ids.add(id);
    onSelect(ids);
  };
  const columns: readonly Column<DeliveryJson>[] = [
    {
      title: "Event",
      cell: (delivery) => (
        <div class="delivery-event">
          <input
            type="checkbox"
            aria-label={`Select ${delivery.id ?? ""}`}
            disabled={!isSelectable(delivery)}
            checked={selected.has(delivery.id ?? "")}
            onChange={() => toggle(delivery.id ?? "")}
          />
          <PageLink
            page="deliveries"
            query={{ ...query, id: delivery.id ?? "" }}
            label={`${delivery.eventType ?? ""}, delivery ${delivery.id ?? ""}`}
          >
            {delivery.eventType}
          </PageLink>
        </div>
      ),
    },
    {
      title: "Endpoint",
      cell: ({ endpointId = "", account }) => (
        <div class="lines">
          <code>{urls.get(endpointId) ?? endpointId}</code>
          <div class="faint">{account}</div>
        </div>
      ),
    },
    { title: "Status", cell: (delivery) => <DeliveryState delivery={delivery} /> },
    { title: "Attempts", isNumber: true, cell: ({ attemptsMade }) => wholeNumber(attemptsMade) },
    { title: "Next attempt", cell: ({ nextAttemptAt }) => <NextAttempt at={nextAttemptAt} /> },
    { title: "Created", cell: ({ createdAt }) => <Moment at={createdAt} /> },
    {
      title: "",
      cell: (delivery) => <RowMenu label={`Actions of ${delivery.id ?? ""}`} items={actionsOf(delivery)} />,
    },
  ];
  const actionsOf = (delivery: DeliveryJson): readonly MenuItem[] => [
    pageItem("Show details", "deliveries", { ...query, id: delivery.id ?? "" }),
    ...(canRetry(delivery)
      ? [
          {
            label: delivery.state === "delivered" ? "Resend" : "Retry now",
            icon: "refresh" as const,
            onSelect: () => onRetry(delivery),
          },
        ]
      : []),
  ];
  return <Table caption="Deliveries, newest first" columns={columns} rows={deliveries} keyOf={({ id = "" }) => id} />;
}
