import type { ServiceLimits } from "../../contract/limits.js";
import { LiveRequests } from "../../domain/call/live-requests.js";
import type { IdSource, Logger } from "../../domain/call/ports.js";
import { Catalog } from "../../domain/catalog/catalog.js";
import { ModelAdmin } from "../../domain/catalog/model-admin.js";
import type { ModelStore, StoredModel } from "../../domain/catalog/model-store.js";
import type { LimitBook } from "../../domain/metering/limit-book.js";
import type { UsageQuestions } from "../../domain/metering/usage-questions.js";
import type { RpcService } from "../../domain/rpc/rpc-service.js";
import { createRpcServices } from "../../domain/rpc/services.js";
import { ServiceCore } from "../../domain/service/service-core.js";
import { Doctor, type Finding, OverviewFeed, type ServiceStatus } from "../../domain/service/service-status.js";
import type { State } from "../../domain/service/state.js";
import { llamaEngine } from "../../engines/llama/llama-engine.js";
import { scriptedEngine } from "../../engines/scripted/scripted-model.js";
import { createRandomIds, createSystemClock } from "../../lib/clock-and-ids.js";
import type { SecretBox } from "../../lib/crypto.js";
import type { TlsFiles } from "../../lib/network.js";
import { createConnectRoutes } from "../../transports/connect/routes.js";
import { createStaticRoutes } from "../../transports/dashboard/static-files.js";
import { createGrpcListener, type GrpcListener } from "../../transports/grpc/grpc-listener.js";
import { createResponseWatch, type ResponseWatch } from "../../transports/http/answer.js";
import { BodyBudget, createUploadWatch, type UploadWatch } from "../../transports/http/body.js";
import { createHttpListener, type HttpListener } from "../../transports/http/listener.js";
import { RouteTable } from "../../transports/http/routes.js";
import { createOpenAiRoutes, openAiFamily } from "../../transports/openai/routes.js";
import { createOpsListener, type OpsListener } from "../../transports/ops/ops-listener.js";
import type { Variables } from "../config/expand.js";
import type { Config } from "../config/schema.js";
import type { Lifecycle } from "../process/lifecycle.js";
import { type Access, composeAccess, composeLimits, composeUsage } from "./accounts.js";
import { loadMasterKey, openSecretBox } from "./master-key.js";
import { type Engines, toKeptModelDefinition } from "./model-catalog.js";
import { createModelFiles, openModelStore } from "./model-store.js";
import { type CountedClock, countTimers, debugState, publicReadiness, readiness } from "./ops-pages.js";
import { publicPages, readStaticFiles } from "./pages.js";
import { composeLedger, type DurableLedger, openState } from "./state.js";
import { composeMetrics, composeStatus, composeTelemetry, type Telemetry } from "./telemetry.js";
import { composeWebhooks, type Webhooks } from "./webhooks.js";

interface ComposeInput {
  readonly config: Config;
  readonly limits: ServiceLimits;
  readonly tls: TlsFiles | null;
  /** Credentials of the administrator. */
  readonly adminTokens: readonly string[];
  /** The operator's own; null: that of the data folder. */
  readonly masterKey: Buffer | null;
  /** Variables of the process, for downloads and for the engine's own processes. */
  readonly environment: Variables;
  /** Warnings about the configuration, except those about the state. */
  readonly warnings: readonly string[];
  readonly examine: Examine;
  readonly log: Logger;
  readonly lifecycle: Lifecycle;
}

/** Runs the checks of `uis doctor` on the running service; the signal ends the slow ones. */
type Examine = (running: {
  readonly state: State;
  readonly models: ModelStore;
  readonly signal: AbortSignal;
}) => Promise<readonly Finding[]>;

/** The parts of one service, wired but not yet listening. */
export interface Parts extends Access {
  readonly state: State;
  readonly core: ServiceCore;
  readonly live: LiveRequests;
  readonly catalog: Catalog;
  readonly engines: Engines;
  readonly modelStore: ModelStore;
  readonly limitBook: LimitBook;
  readonly status: ServiceStatus;
  /** Encrypts what is kept secret. */
  readonly secrets: SecretBox;
  readonly http: HttpListener;
  readonly grpc: GrpcListener;
  readonly ops: OpsListener;
  debugState(): Promise<object>;
}

/** How often all responses are looked at for stalled readers and silent streams. */
const watchEveryMs = 1_000;

/** The one place that knows which classes make up the service. Whatever it opens, `lifecycle` closes. */
export async function compose(input: ComposeInput): Promise<Parts> {
  const tools = {
    clock: countTimers(createSystemClock()),
    ids: createRandomIds(),
    limits: input.limits,
    log: input.log,
    ...(await composeTelemetry(input)),
  };
  const domain = await composeDomain(input, tools);
  return { ...domain, ...(await composeTransports(input, tools, domain)) };
}

/** What nearly every part needs. */
interface Tools extends Telemetry {
  readonly clock: CountedClock;
  readonly ids: IdSource;
  readonly limits: ServiceLimits;
  readonly log: Logger;
}

type Domain = Omit<Parts, "http" | "grpc" | "ops" | "debugState"> & {
  readonly kept: DurableLedger;
  readonly usage: UsageQuestions;
  readonly webhooks: Webhooks;
  readonly services: readonly RpcService[];
};

async function composeDomain(input: ComposeInput, tools: Tools): Promise<Domain> {
  const { config, adminTokens, masterKey, lifecycle } = input;
  const { clock, limits, log } = tools;
  const state = await openState(config, tools);
  lifecycle.onClose("state", () => state.close());
  const secrets = await openSecretBox(await loadMasterKey(masterKey, config.data_dir, state), state.settings);
  const kept = await composeLedger(input, tools, state);
  const { ledger } = kept;
  const live = new LiveRequests();
  const access = composeAccess({ ...tools, state, live, adminTokens, lifecycle });

  const modelStore = await openModelStore(config, input.environment, clock);
  lifecycle.onClose("downloads", () => modelStore.close());
  for (const { model, reason } of modelStore.damaged) log.error({ model: model.id, reason }, "a kept model is damaged");
  const engines = composeEngines(input, tools, modelStore);
  const catalog = new Catalog({ clock, log, store: state.catalog, limits });
  lifecycle.onClose("models", () => catalog.replace([]));

  const shared = { ...tools, ...access, config, state, ledger, live, catalog, lifecycle };
  const limiting = await composeLimits(shared);
  const accounts = await composeUsage({ ...shared, limitBook: limiting.limitBook });
  const webhooks = composeWebhooks({ ...shared, secrets });
  const core = new ServiceCore({ ...shared, ...limiting, ...accounts });
  const define = (model: StoredModel) => toKeptModelDefinition(model, engines);
  const modelAdmin = new ModelAdmin({ store: modelStore, catalog, define });
  const { audit: auditLog, backup } = state;
  const status = composeStatus({ ...shared, ...webhooks, kept, warnings: input.warnings });
  const services = createRpcServices({
    ...access,
    ...limiting,
    ...accounts,
    ...webhooks,
    core,
    limits,
    auditLog,
    backup,
    status,
    overview: new OverviewFeed({ status, clock }),
    doctor: composeDoctor(input, { state, modelStore }),
    modelAdmin,
  });
  const { usage } = accounts;
  const { limitBook } = limiting;
  return {
    ...access,
    state,
    secrets,
    kept,
    live,
    engines,
    modelStore,
    catalog,
    core,
    usage,
    webhooks,
    services,
    limitBook,
    status,
  };
}

function composeDoctor(
  { examine, lifecycle }: ComposeInput,
  { state, modelStore: models }: { readonly state: State; readonly modelStore: ModelStore },
): Doctor {
  const closing = new AbortController();
  lifecycle.onClose("doctor", () => closing.abort());
  const { signal } = closing;
  return new Doctor(() => examine({ state, models, signal }));
}

function composeEngines({ config, environment, log }: ComposeInput, { clock, ids }: Tools, store: ModelStore): Engines {
  const { stall, circuit_crashes, threads, module_dir } = config.engine;
  return {
    scripted: scriptedEngine.create({ clock, ids }),
    llama: llamaEngine.create({
      // Heartbeats are no timers of requests, so they are not counted among them.
      clock: createSystemClock(),
      log,
      files: createModelFiles({ store, log }),
      settings: { stallMs: stall, circuitCrashes: circuit_crashes, threads, moduleDir: module_dir },
      environment,
    }),
  };
}

async function composeTransports(
  { config, tls, lifecycle }: ComposeInput,
  tools: Tools,
  { core, services, usage, webhooks, live, catalog, kept, state, audit }: Domain,
): Promise<Pick<Parts, "http" | "grpc" | "ops" | "debugState">> {
  const { clock, limits, log } = tools;
  const watch = createResponseWatch({
    intervalMs: () => Math.max(5, Math.min(watchEveryMs, limits.stallMs / 4, limits.sseKeepAliveMs / 4)),
    stallMs: () => limits.stallMs,
    keepAliveMs: () => limits.sseKeepAliveMs,
    now: () => clock.monotonic(),
  });
  lifecycle.onClose("response watch", () => watch.close());
  const uploads = createUploadWatch({
    bytesPerSecondMin: () => limits.bodyRateMin,
    graceMs: () => limits.bodyRateGraceMs,
    now: () => clock.monotonic(),
  });
  lifecycle.onClose("upload watch", () => uploads.close());
  const bodies = new BodyBudget(limits);
  const http = await composeHttpListener(
    { config, tls, lifecycle },
    { ...tools, core, services, usage, kept, ...webhooks, watch, bodies, uploads },
  );
  lifecycle.onClose("HTTP listener", () => http.close());
  const grpc = createGrpcListener({
    ...tools,
    connectionClock: createSystemClock(),
    bodies,
    uploads,
    core,
    services,
    reflection: config.grpc.reflection,
    tls,
  });
  lifecycle.onClose("gRPC listener", () => grpc.drain(0));

  const currentState = () =>
    debugState({
      live,
      catalog,
      ledger: kept.ledger,
      deliveries: state.deliveries,
      deliveriesInFlight: () => webhooks.sending?.inFlight() ?? 0,
      httpConnections: () => http.connections(),
      grpcConnections: () => grpc.connections(),
      streams: () => watch.size,
      timers: () => clock.pending,
    });
  const ops = createOpsListener({
    ready: () => readiness(lifecycle.phase, state, kept.spooled()),
    debugState: currentState,
    metrics: composeMetrics({
      ...tools,
      catalog,
      kept,
      state,
      audit,
      webhooks: webhooks.sending,
      now: () => clock.now(),
    }),
    log,
  });
  lifecycle.onClose("operations listener", () => ops.close());
  return { http, grpc, ops, debugState: currentState };
}

/** The HTTP listener with its one route table: RPCs, REST, the dashboard and the pages about the API. */
async function composeHttpListener(
  { config, tls, lifecycle }: Pick<ComposeInput, "config" | "tls" | "lifecycle">,
  deps: Tools &
    Pick<Domain, "core" | "services" | "usage" | "kept"> &
    Pick<Webhooks, "webhookEndpoints"> & {
      readonly watch: ResponseWatch;
      readonly bodies: BodyBudget;
      readonly uploads: UploadWatch;
    },
): Promise<HttpListener> {
  const connect = createConnectRoutes(deps);
  const pages = publicPages(() => publicReadiness(lifecycle.phase, deps.kept.spooled()));
  const openAi = createOpenAiRoutes({ ...deps, keepAlive: config.sse.keep_alive, pages });
  const files = createStaticRoutes(await readStaticFiles(), deps.ids);
  const routes = new RouteTable([...connect.routes, ...openAi.routes, ...files], (req, res, rest) => {
    if (!connect.refuseUnknown(req, res)) openAi.refuseUnknown(req, res, rest);
  });
  const { cors_origins: corsOrigins, allowed_hosts: allowedHosts } = config.server;
  const { errorToJson } = openAiFamily;
  return createHttpListener({ ...deps, corsOrigins, allowedHosts, tls, routes, errorToJson });
}
