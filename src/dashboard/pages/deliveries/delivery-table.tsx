import type { DeliveryJson } from "../../../../gen/unified/webhook/v1/delivery_pb.js";
import type { WebhookEndpointJson } from "../../../../gen/unified/webhook/v1/webhook_endpoint_pb.js";
import { wholeNumber } from "../../format.js";
import { Moment } from "../../ui/moment.js";
import { PageLink } from "../../ui/page-link.js";
import { type Column, Table } from "../../ui/table.js";
import { canRetry } from "./can-retry.js";
import type { DeliveryQuery } from "./delivery-query.js";
import { DeliveryState } from "./delivery-state.js";
import { Due } from "./due.js";

export interface DeliveryTableProps {
  readonly deliveries: readonly DeliveryJson[];
  /** Kept in the address of a delivery, so that the way back leads to the same list. */
  readonly query: DeliveryQuery;
  /** Those whose addresses are known. */
  readonly endpoints: readonly WebhookEndpointJson[];
  readonly onRetry: (delivery: DeliveryJson) => void;
}

export function DeliveryTable({ deliveries, query, endpoints, onRetry }: DeliveryTableProps) {
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
    { title: "State", cell: (delivery) => <DeliveryState delivery={delivery} /> },
    { title: "Attempts", isNumber: true, cell: ({ attemptsMade }) => wholeNumber(attemptsMade) },
    { title: "Next due", cell: ({ nextAttemptAt }) => <Due at={nextAttemptAt} /> },
    { title: "", cell: (delivery) => <RetryButton delivery={delivery} onRetry={onRetry} /> },
  ];
  return <Table caption="Deliveries, newest first" columns={columns} rows={deliveries} keyOf={({ id = "" }) => id} />;
}

function RetryButton({
  delivery,
  onRetry,
}: {
  readonly delivery: DeliveryJson;
  readonly onRetry: (delivery: DeliveryJson) => void;
}) {
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
