import type { LiveRequests } from "../../domain/call/live-requests.js";
import type { Clock } from "../../domain/call/ports.js";
import type { Catalog } from "../../domain/catalog/catalog.js";
import type { CatalogModel } from "../../domain/catalog/catalog-model.js";
import type { Ledger } from "../../domain/metering/ledger.js";
import type { SpoolLevel } from "../../domain/metering/spool.js";
import type { State } from "../../domain/service/state.js";
import type { DeliveryQueue } from "../../domain/webhooks/delivery-queue.js";
import type { Phase } from "../process/lifecycle.js";
import type { Readiness } from "./pages.js";

/**
 * `/ready` of the operations listener. An unavailable store is shown and leaves the service ready: inference goes on, and
 * taking every replica out of the load balancer would not help. A replica that rejects inference because its own disk is
 * full and its memory too is not ready.
 */
export async function readiness(
  phase: Phase,
  state: Pick<State, "kind" | "health">,
  spool: SpoolLevel,
): Promise<{ ready: boolean; detail: object }> {
  const { ok, latencyMs, durability, writeFault, warnings } = await state.health();
  return {
    ready: isReady(phase, spool),
    detail: {
      status: phase,
      reason: storageReason({ writeFault }, spool),
      state: { kind: state.kind, ok, latency_ms: latencyMs, durability, write_fault: writeFault, warnings },
      usage: { spooled: spool.size, memory_only: spool.memoryOnly, spool_fault: spool.fault },
    },
  };
}

/** Whether new inference is taken. */
function isReady(phase: Phase, spool: SpoolLevel): boolean {
  return phase === "ready" && !(spool.fault !== null && spool.size >= spool.sizeMax);
}

/** The same for the public listener, without detail. */
export function publicReadiness(phase: Phase, spool: SpoolLevel): Readiness {
  const isStored = spool.fault === null && spool.memoryOnly === 0;
  return { isReady: isReady(phase, spool), reason: isStored ? null : "storage_unavailable" };
}

function storageReason({ writeFault }: { writeFault: string | null }, spool: SpoolLevel): string | null {
  const parts: string[] = [];
  if (writeFault !== null) parts.push(`the store cannot be written: ${writeFault}`);
  if (spool.fault !== null) parts.push(`the spool cannot be written: ${spool.fault}`);
  if (spool.memoryOnly > 0) parts.push(`the usage of ${spool.memoryOnly} finished requests is in memory only`);
  return parts.length === 0 ? null : parts.join("; ");
}

interface DebugStateDeps {
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

/** A clock that knows how many of its timers are pending. */
export interface CountedClock extends Clock {
  /** Timers that have neither fired nor been cancelled. */
  readonly pending: number;
}

/**
 * Counts the timers of requests (deadlines, queue waits, paces), which Node's own list leaves out because they do not
 * keep the process alive. At rest the count is that of an idle service: one that grows shows a leak.
 */
export function countTimers(clock: Clock): CountedClock {
  let pending = 0;
  return {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    after(ms, run) {
      let open = true;
      const end = (): boolean => {
        if (!open) return false;
        open = false;
        pending -= 1;
        return true;
      };
      pending += 1;
      const cancel = clock.after(ms, () => {
        if (end()) run();
      });
      return () => {
        if (end()) cancel();
      };
    },
    get pending() {
      return pending;
    },
  };
}
