import type { LiveRequests } from "../domain/call/live-requests.js";
import type { Catalog } from "../domain/catalog/catalog.js";
import type { CatalogModel } from "../domain/catalog/catalog-model.js";
import type { Ledger } from "../domain/metering/ledger.js";
import type { DeliveryQueue } from "../domain/webhooks/delivery-queue.js";

export interface DebugStateDeps {
  readonly live: LiveRequests;
  readonly catalog: Catalog;
  readonly ledger: Pick<Ledger, "liveLeases">;
  readonly deliveries: Pick<DeliveryQueue, "due">;
  /** Those that this process has claimed. */
  readonly deliveriesInFlight: () => number;
  readonly httpConnections: () => number;
  readonly grpcConnections: () => number;
  /** Answers of the HTTP listener that are watched for readers that stall: streams, from their request on. */
  readonly streams: () => number;
  /** Timers of requests that have neither fired nor been cancelled. */
  readonly timers: () => number;
}

/** `/debug/state`: what is going on in this process. At rest all counts of requests, streams and leases are zero. */
export async function debugState(deps: DebugStateDeps): Promise<object> {
  const stages = deps.live.countByStage();
  return {
    requests: {
      running: (stages.running ?? 0) + (stages.delivering ?? 0),
      waiting: stages.queued ?? 0,
      by_stage: stages,
    },
    models: deps.catalog.all().map(modelState),
    connections: { http: deps.httpConnections(), grpc: deps.grpcConnections() },
    streams: deps.streams(),
    timers: deps.timers(),
    deliveries: { due: await deps.deliveries.due(), in_flight: deps.deliveriesInFlight() },
    live_leases: await deps.ledger.liveLeases(),
  };
}

function modelState(model: CatalogModel): object {
  const total = { slots: 0, busy: 0, waiting: 0, produced_tokens: 0 };
  for (const { queue, model: loaded } of model.deployments) {
    total.slots += queue.slots;
    total.busy += queue.busy;
    total.waiting += queue.waiting;
    total.produced_tokens += loaded?.stats().producedTokens ?? 0;
  }
  return { id: model.id, ...total };
}
