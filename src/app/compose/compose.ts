import { createMetricsPage } from "../../telemetry/metrics/metrics-page.js";
import { anthropicPaths, createAnthropicRoutes } from "../../transports/anthropic/routes.js";
import { createConnectRoutes } from "../../transports/connect/routes.js";
import { createStaticRoutes, withBrowserRedirect } from "../../transports/dashboard/static-files.js";
import { createGrpcListener } from "../../transports/grpc/grpc-listener.js";
import { createResponseWatch } from "../../transports/http/answer.js";
import { BodyBudget, createUploadWatch } from "../../transports/http/body.js";
import { ConnectionLimit } from "../../transports/http/connection-limit.js";
import { createHttpListener } from "../../transports/http/listener.js";
import { RouteTable } from "../../transports/http/routes.js";
import { createOpenAiRoutes, openAiFamily } from "../../transports/openai/routes.js";
import { createOpsListener } from "../../transports/ops/ops-listener.js";
import { type ComposeInput, type Context, createContext } from "./context.js";
import { grpcOfRole } from "./core-trust.js";
import { composeDomain, type Domain } from "./domain.js";
import { publicPages, readiness, readStaticFiles } from "./pages.js";

/** The parts of one service, wired but not yet listening. */
export type Parts = Awaited<ReturnType<typeof compose>>;

/** Creates all parts of a service. Whatever it opens, `lifecycle` closes. */
export async function compose(input: ComposeInput) {
  const context = await createContext(input);
  const domain = await composeDomain(context);
  return { ...domain, ...(await composeListeners(context, domain)) };
}

async function composeListeners(context: Context, domain: Domain) {
  const { config, opsToken, clock, backgroundClock, limits, log, lifecycle } = context;
  const { state, cores } = domain;
  const watch = createResponseWatch(limits, clock.monotonic);
  lifecycle.onClose("response watch", () => watch.close());
  const uploads = createUploadWatch(limits, clock.monotonic);
  lifecycle.onClose("upload watch", () => uploads.close());
  const connectionLimit = new ConnectionLimit({ max: context.connectionsMax, clock, log });
  const deps = { ...context, ...domain, watch, bodies: new BodyBudget(limits), uploads, connectionLimit };
  const http = createHttpListener({ ...deps, ...(await httpSettings(deps)) });
  lifecycle.onClose("HTTP listener", () => http.close());
  const { reflection } = config.grpc;
  const { followsFiles, ...ofRole } = await grpcOfRole(context);
  const grpc = createGrpcListener({ ...deps, connectionClock: backgroundClock, reflection, ...ofRole });
  if (!followsFiles) grpc.reloadTls = () => {};
  lifecycle.onClose("gRPC listener", () => grpc.drain(0));

  const debugState = () => stateOfProcess(context, domain, { http, grpc, watch });
  const ready = () => readiness(lifecycle.phase, state, domain.spooled(), cores);
  const metrics = composeMetrics(context, domain);
  // A worker has no listener for operators: the first process serves the pages about all workers.
  const ops = context.worker === null ? createOpsListener({ ready, debugState, metrics, token: opsToken, log }) : null;
  lifecycle.onClose("operations listener", () => ops?.close());
  return { http, grpc, ops, debugState, ready, metrics };
}

type ListenerDeps = Context & Domain & Pick<Parameters<typeof createOpenAiRoutes>[0], "watch" | "bodies" | "uploads">;

/** Settings of the HTTP listener with its one route table: RPCs, REST, the dashboard and the pages about the API. */
async function httpSettings(deps: ListenerDeps) {
  const { config, lifecycle, ids, spooled, state, cores, folderToken } = deps;
  const connect = createConnectRoutes(deps);
  const pages = publicPages(lifecycle, { spooled, fileFault: state.fileFault, cores }, folderToken);
  const { keep_alive: keepAlive } = config.sse;
  const openAi = createOpenAiRoutes({ ...deps, keepAlive, pages, otherPaths: anthropicPaths });
  const anthropic = createAnthropicRoutes({ ...deps, keepAlive });
  const files = createStaticRoutes(await readStaticFiles(), ids, openAi.refuseUnknown);
  const rest = openAi.routes.map((route) => (route.path === "/" ? withBrowserRedirect(route, ids) : route));
  const routes = new RouteTable([...connect.routes, ...rest, ...anthropic, ...files], (req, res) => {
    if (!connect.refuseUnknown(req, res)) openAi.refuseUnknown(req, res);
  });
  const { cors_origins: corsOrigins, allowed_hosts: allowedHosts } = config.server;
  return { corsOrigins, allowedHosts, routes, errorToJson: openAiFamily.errorToJson };
}

function composeMetrics({ observer, shares: fairShares, clock }: Context, domain: Domain) {
  const { catalog, state, audit, sending: webhooks, upstreamMetrics, spooled, areLimitsDegraded, recorder } = domain;
  return createMetricsPage(observer, {
    models: () =>
      catalog.all().map((model) => {
        const { busy: running, waiting, restarts: engineRestarts } = model.sums();
        const triesDenied = model.hasUpstream ? model.retryBudget.exhausted : null;
        return { id: model.id, running, waiting, engineRestarts, triesDenied };
      }),
    spooled,
    stateHealth: () => state.health(),
    areLimitsDegraded,
    fairShares,
    auditRecordsLost: () => audit.lost,
    requestLogsDropped: () => recorder?.dropped ?? 0,
    webhooks,
    upstreams: {
      metrics: upstreamMetrics,
      deployments: () =>
        catalog
          .deployments()
          .filter(({ upstream }) => upstream !== null)
          .map(({ id, ejection, outstandingTokens }) => ({
            id,
            isEjected: ejection.countsAsEjected,
            outstandingTokens,
          })),
    },
    now: clock.now,
  });
}

interface Connections {
  readonly http: { connections(): number };
  readonly grpc: { connections(): number };
  /** Streamed responses that are watched for clients that stop reading. */
  readonly watch: { readonly size: number };
}

/** `/debug/state`: the current work of this process. At rest all counts of requests, streams and leases are zero. */
async function stateOfProcess({ clock }: Context, domain: Domain, { http, grpc, watch }: Connections): Promise<object> {
  const { live, catalog, state, sending, ledger } = domain;
  const stages = live.countByStage();
  return {
    requests: {
      running: (stages.running ?? 0) + (stages.delivering ?? 0),
      waiting: stages.queued ?? 0,
      by_stage: stages,
    },
    models: catalog.all().map((model) => {
      const { slots, busy, waiting, producedTokens: produced_tokens } = model.sums();
      return { id: model.id, slots, busy, waiting, produced_tokens };
    }),
    deployments: catalog.deployments().map((deployment) => ({
      id: deployment.id,
      model: deployment.modelId,
      upstream: deployment.upstream,
      ...deployment.state,
      outstanding_requests: deployment.outstandingRequests,
      outstanding_tokens: deployment.outstandingTokens,
      weight: deployment.weight,
      priority: deployment.priority,
    })),
    connections: { http: http.connections(), grpc: grpc.connections() },
    streams: watch.size,
    /** Timers of requests: deadlines, queue waits, delays between tokens. */
    timers: clock.pending,
    deliveries: { due: await state.deliveries.due(), in_flight: sending?.inFlight() ?? 0 },
    live_leases: await ledger.liveLeases(),
  };
}
