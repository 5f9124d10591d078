import type { CallTracer } from "../../domain/call/observer.js";
import type { Clock, Logger } from "../../domain/call/ports.js";
import type { Catalog } from "../../domain/catalog/catalog.js";
import { ServiceStatus } from "../../domain/service/service-status.js";
import type { State } from "../../domain/service/state.js";
import { CallMetrics, callFigures } from "../../telemetry/metrics/call-metrics.js";
import { createMetricsPage, type MetricsPage, type ModelState } from "../../telemetry/metrics/metrics-page.js";
import type { WebhookSources } from "../../telemetry/metrics/webhook-metrics.js";
import { openTraces, TracePackagesMissing, type Traces } from "../../telemetry/traces/open-traces.js";
import { SpanWriter } from "../../telemetry/traces/span-writer.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { readTraceSettings, type TraceSettings } from "../config/well-known-variables.js";
import type { Lifecycle } from "../process/lifecycle.js";
import type { DurableLedger } from "./state.js";

interface TelemetryInput {
  readonly config: Config;
  readonly environment: Variables;
  readonly log: Logger;
  readonly lifecycle: Lifecycle;
}

/** Who is told of calls. */
export interface Telemetry {
  readonly observer: CallMetrics;
  /** Null: no traces are wanted, or they cannot be sent. */
  readonly tracer: CallTracer | null;
}

export async function composeTelemetry(input: TelemetryInput): Promise<Telemetry> {
  return { observer: new CallMetrics(), tracer: await composeTracer(input) };
}

async function composeTracer({ config, environment, log, lifecycle }: TelemetryInput): Promise<CallTracer | null> {
  const settings = readTraceSettings(environment);
  if (settings === null) return null;
  for (const warning of settings.warnings) log.warn({}, warning);
  const traces = await tracesOrNull(settings, log);
  if (traces === null) return null;
  lifecycle.onClose("traces", () => traces.close());
  const { host, port, grpc_port: grpcPort } = config.server;
  return new SpanWriter(traces.tracer, (transport) => ({ host, port: transport === "grpc" ? grpcPort : port }));
}

/** A service that cannot send its traces serves nevertheless: endpoints are often set for a whole platform. */
async function tracesOrNull(settings: TraceSettings, log: Logger): Promise<Traces | null> {
  try {
    return await openTraces(settings, log);
  } catch (cause) {
    if (!(cause instanceof TracePackagesMissing)) throw cause;
    log.warn({}, `traces are configured and not sent: ${cause.message}`);
    return null;
  }
}

interface MetricsInput {
  readonly observer: CallMetrics;
  readonly catalog: Catalog;
  readonly kept: DurableLedger;
  readonly state: Pick<State, "health">;
  readonly audit: { readonly lost: number };
  readonly webhooks: WebhookSources | null;
  readonly now: () => number;
}

export function composeMetrics(input: MetricsInput): MetricsPage {
  const { observer, catalog, kept, state, audit, webhooks, now } = input;
  return createMetricsPage(observer, {
    models: () => catalog.all().map(modelState),
    spooled: kept.spooled,
    isStoreUp: async () => {
      const { ok, writeFault } = await state.health();
      return ok && writeFault === null;
    },
    areLimitsDegraded: kept.isAway,
    auditRecordsLost: () => audit.lost,
    webhooks,
    now,
  });
}

function modelState({ id, deployments }: ReturnType<Catalog["all"]>[number]): ModelState {
  let running = 0;
  let waiting = 0;
  let engineRestarts = 0;
  for (const { queue, model } of deployments) {
    running += queue.busy;
    waiting += queue.waiting;
    engineRestarts += model?.stats().restarts ?? 0;
  }
  return { id, running, waiting, engineRestarts };
}

interface StatusInput {
  /** Warnings about the configuration, except those about the state. */
  readonly warnings: readonly string[];
  readonly clock: Clock;
  readonly observer: CallMetrics;
  readonly catalog: Catalog;
  readonly kept: DurableLedger;
  readonly state: State;
  /** Null: this process sends no webhooks. */
  readonly sending: WebhookSources | null;
}

export function composeStatus(input: StatusInput): ServiceStatus {
  const { warnings, clock, observer, catalog, kept, state, sending } = input;
  return new ServiceStatus({
    clock,
    state,
    catalog,
    calls: callFigures(observer),
    spooled: kept.spooled,
    endpointsFailing: () => sending?.metrics.failing ?? 0,
    warnings,
  });
}
