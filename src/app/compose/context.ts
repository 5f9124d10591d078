import type { ServiceLimits } from "../../contract/limits.js";
import { createFairShares } from "../../domain/call/fair-shares.js";
import type { CallTracer } from "../../domain/call/observer.js";
import type { Logger } from "../../domain/call/ports.js";
import type { ModelStore } from "../../domain/catalog/model-store.js";
import type { AllWorkers } from "../../domain/service/all-workers.js";
import type { Finding } from "../../domain/service/service-status.js";
import type { State } from "../../domain/service/state.js";
import { createSystemClock } from "../../lib/clock.js";
import { createRandomIds } from "../../lib/crypto.js";
import type { TlsFiles } from "../../lib/network.js";
import type { Secret } from "../../lib/secret.js";
import { CallMetrics } from "../../telemetry/metrics/call-metrics.js";
import { openTraces, TracePackagesMissing } from "../../telemetry/traces/open-traces.js";
import { SpanWriter } from "../../telemetry/traces/span-writer.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import { readTraceSettings } from "../config/well-known-variables.js";
import type { Lifecycle } from "../process/lifecycle.js";

/** One of the workers of a service, which share its ports (`server.workers`). */
export interface WorkerContext extends AllWorkers {
  /** 1 to `count`; a worker that replaces another one has its number. */
  readonly number: number;
  readonly count: number;
  /** Whether it is the first worker of a start, which creates the first key. */
  readonly isFirst: boolean;
  /** The administrator's token in the data folder. */
  readonly adminToken: string;
  /** Address of the operations listener, which is in the first process: `http://127.0.0.1:9464` */
  readonly ops: string;
  /** Resolves with the ports to listen on, when the first process no longer holds them. */
  ports(): Promise<{ readonly port: number; readonly grpc_port: number }>;
}

export interface ComposeInput {
  readonly config: Config;
  readonly limits: ServiceLimits;
  readonly tls: TlsFiles | null;
  /** Connections that the public listeners may have together. */
  readonly connectionsMax: number;
  /** Credential for the pages of the operations listener; null: none is required. */
  readonly opsToken: Secret | null;
  /** The token that this process writes into its data folder; one of `adminTokens`. */
  readonly folderToken: string;
  /** Credentials of the administrator. */
  readonly adminTokens: readonly string[];
  /** Master key that the operator set; null: the one in the data folder is used. */
  readonly masterKey: Buffer | null;
  /** Variables of the process, for downloads and for the engine's own processes. */
  readonly environment: Variables;
  /** Warnings about the configuration, except those about the state. */
  readonly warnings: readonly string[];
  /** Runs the checks of `uis doctor` on the running service; the signal aborts the slow ones. */
  readonly examine: (running: {
    readonly state: State;
    readonly models: ModelStore;
    readonly signal: AbortSignal;
  }) => Promise<readonly Finding[]>;
  /** Whether an empty embedded database replaces a lost one. */
  readonly newStore: boolean;
  /** Null: this is the only process of the service. */
  readonly worker: WorkerContext | null;
  readonly log: Logger;
  readonly lifecycle: Lifecycle;
}

/** The shared parts that every composing function receives. */
export type Context = Awaited<ReturnType<typeof createContext>>;

export async function createContext(input: ComposeInput) {
  return {
    ...input,
    /** Clock of requests: all its pending timers belong to requests. */
    clock: createSystemClock(),
    /** Clock of timers that belong to no request, such as heartbeats and polls. */
    backgroundClock: createSystemClock(),
    ids: createRandomIds(),
    observer: new CallMetrics(input.config.metrics.histogram_models),
    shares: createFairShares(),
    tracer: await openTracer(input),
  };
}

/** Null when traces are off or cannot be exported. The start continues: endpoints are often set for a whole platform. */
async function openTracer({ config, environment, log, lifecycle }: ComposeInput): Promise<CallTracer | null> {
  const settings = readTraceSettings(environment);
  if (settings === null) return null;
  for (const warning of settings.warnings) log.warn({}, warning);
  try {
    const traces = await openTraces(settings, log);
    lifecycle.onClose("traces", () => traces.close());
    const { host, port, grpc_port: grpcPort } = config.server;
    return new SpanWriter(traces.tracer, (transport) => ({ host, port: transport === "grpc" ? grpcPort : port }));
  } catch (cause) {
    if (!(cause instanceof TracePackagesMissing)) throw cause;
    log.warn({}, `traces are configured but not exported: ${cause.message}`);
    return null;
  }
}
