import { randomBytes } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { Administrator, Passwords } from "../../domain/access/administrator.js";
import { ApiKeys, RevocationReadBack } from "../../domain/access/api-keys.js";
import { Audit } from "../../domain/access/audit.js";
import { Authenticator } from "../../domain/access/authenticator.js";
import { RevocationWatch } from "../../domain/access/key-cache.js";
import { Sessions } from "../../domain/access/sessions.js";
import { LiveRequests } from "../../domain/call/live-requests.js";
import { Catalog } from "../../domain/catalog/catalog.js";
import { DrainedDeployments } from "../../domain/catalog/drained-deployments.js";
import { ModelAdmin } from "../../domain/catalog/model-admin.js";
import { ModelPulls } from "../../domain/catalog/model-pulls.js";
import type { ModelStore, StoredModel } from "../../domain/catalog/model-store.js";
import type { UpstreamKind } from "../../domain/engine/upstream.js";
import { Accounting } from "../../domain/metering/accounting.js";
import { LeaseKeeper } from "../../domain/metering/lease-keeper.js";
import type { Ledger } from "../../domain/metering/ledger.js";
import { LimitBook, ThresholdBook } from "../../domain/metering/limit-book.js";
import { RejectionCache } from "../../domain/metering/limit-response.js";
import { LimitsAdmin } from "../../domain/metering/limits-admin.js";
import { ThresholdAdmin } from "../../domain/metering/threshold-admin.js";
import { UsageQueries } from "../../domain/metering/usage-queries.js";
import { createRpcServices } from "../../domain/rpc/services.js";
import { ServiceCore } from "../../domain/service/service-core.js";
import { oneAtATime, ServiceStatus } from "../../domain/service/service-status.js";
import { type State, startPurge } from "../../domain/service/state.js";
import { UpstreamAdmin } from "../../domain/upstreams/upstream-admin.js";
import { UpstreamBook } from "../../domain/upstreams/upstream-book.js";
import { UpstreamChecks } from "../../domain/upstreams/upstream-checks.js";
import { Deliveries } from "../../domain/webhooks/deliveries.js";
import type { WebhookSender } from "../../domain/webhooks/delivery.js";
import { Dispatcher } from "../../domain/webhooks/dispatcher.js";
import { WebhookEndpoints } from "../../domain/webhooks/endpoints.js";
import { startFanOut, watchEventBacklog } from "../../domain/webhooks/event-backlog.js";
import { type LlamaSettings, llamaEngine } from "../../engines/llama/llama-engine.js";
import { openAiEngine } from "../../engines/openai/openai-engine.js";
import { scriptedEngine } from "../../engines/scripted/scripted-model.js";
import type { SecretBox } from "../../lib/crypto.js";
import * as passwordHash from "../../lib/crypto.js";
import { createWebhookSender } from "../../outbound/webhook-sender.js";
import { callFigures, toFigureData } from "../../telemetry/metrics/call-figures.js";
import { UpstreamMetrics } from "../../telemetry/metrics/upstream-metrics.js";
import { WebhookMetrics, type WebhookSources } from "../../telemetry/metrics/webhook-metrics.js";
import { toRateLimitDefaults } from "../config/limits-settings.js";
import { upstreamYaml } from "../config/new-upstream.js";
import type { Config } from "../config/schema.js";
import { webhookLeaseMs } from "../config/webhook-settings.js";
import { chooseInstalledBuild } from "../engines/build-list.js";
import type { Context } from "./context.js";
import { composeGateway } from "./gateway.js";
import { loadMasterKey, openSecretBox } from "./master-key.js";
import { type Engines, toStoredModelDefinition } from "./model-catalog.js";
import { ModelDiscovery } from "./model-discovery.js";
import { createModelFiles, openModelStore } from "./model-store.js";
import { RunningUpstreams } from "./running-upstreams.js";
import { composeShownStatus } from "./shown-status.js";
import { composeLedger, openState } from "./state.js";
import { composeRequestLog, composeStoredResponses } from "./stored-requests.js";
import { examineUpstream } from "./upstream-check.js";

/** The object that runs calls, and everything that it uses; the transports are not part of it. */
export type Domain = Awaited<ReturnType<typeof composeDomain>>;

export async function composeDomain(context: Context) {
  const { config, environment, warnings, clock, backgroundClock, limits, shares, log, lifecycle, observer } = context;
  const state = await openState(config, context);
  lifecycle.onClose("state", () => state.close());
  const secrets = await openSecretBox(await loadMasterKey(context.masterKey, config.data_dir, state), state.settings);
  const durable = await composeLedger(context, state);
  const live = new LiveRequests();
  const access = composeAccess(context, state, live);

  const modelStore = await openModelStore(config, environment, clock);
  lifecycle.onClose("downloads", () => modelStore.close());
  for (const { model, reason } of modelStore.damaged)
    log.error({ model: model.id, reason }, "a stored model is damaged");
  const pulls = new ModelPulls({ store: modelStore, clock, log });
  lifecycle.onClose("pulls", () => pulls.close());
  const upstreamMetrics = new UpstreamMetrics(config.metrics.histogram_models);
  const build = await chooseInstalledBuild(config.engine, config.data_dir);
  const engines = composeEngines(context, { modelStore, pulls, build }, upstreamMetrics);
  const { random } = Math;
  const drained = new DrainedDeployments({ store: state.drains, changes: state.changes, clock: backgroundClock, log });
  lifecycle.onClose("drained deployments", () => drained.close());
  await drained.refresh();
  const catalog = new Catalog({ ...context, store: state.catalog, random, drained });
  lifecycle.onClose("models", () => catalog.close());
  const discovery = new ModelDiscovery({ catalog, engine: engines.openai, clock: backgroundClock, random, log });
  lifecycle.onClose("model discovery", () => discovery.close());
  const book = new UpstreamBook({ store: state.upstreams, changes: state.changes, clock: backgroundClock, log });
  lifecycle.onClose("stored upstreams", () => book.close());
  await book.refresh();
  const upstreams = new RunningUpstreams({ book, discovery, secrets, limits, log });

  const { audit } = access;
  const limiting = await composeLimits(context, state, durable.ledger, audit);
  const accounts = await composeUsage(context, state, { ...limiting, ledger: durable.ledger, live, catalog, audit });
  const webhooks = composeWebhooks(context, state, { secrets, live, audit });
  const requests = await composeRequestLog(context, state);
  const storedResponses = await composeStoredResponses(context, state, secrets);
  const parts = {
    ...access,
    ...durable,
    ...limiting,
    ...accounts,
    ...webhooks,
    ...requests,
    storedResponses,
    state,
    secrets,
    live,
    catalog,
  };
  const isGateway = config.server.role === "gateway";
  // A gateway has no request log of its own: its cores record its requests.
  const local = new ServiceCore({ ...context, ...parts, ...(isGateway && { recorder: null }) });
  const gateway = isGateway ? await composeGateway(context, local, limiting.rejections) : null;
  const core = gateway?.core ?? local;
  const define = (model: StoredModel) => toStoredModelDefinition(model, engines);
  const modelAdmin = new ModelAdmin({ store: modelStore, pulls, catalog, define, runsModels: context.worker === null });
  const endpointsFailing = () => webhooks.sending?.metrics.failing ?? 0;
  const calls = callFigures(observer);
  const chargedNano = () => accounts.accounting.chargedNano;
  const status = new ServiceStatus({
    ...durable,
    clock,
    state,
    catalog,
    calls,
    chargedNano,
    endpointsFailing,
    warnings,
  });
  const shown = composeShownStatus(context, status, calls, chargedNano);
  const ownServices = createRpcServices({
    ...parts,
    core,
    limits,
    shares,
    auditLog: state.audit,
    ...composeBackup(config, state),
    ...shown,
    doctor: composeDoctor(context, state, modelStore),
    modelAdmin,
    ...composeUpstreamAdmin(state, { upstreams, drained, catalog, secrets, audit }),
  });
  const services = gateway?.forward(ownServices) ?? ownServices;
  const cores = gateway?.cores ?? null;
  /** The figures of this process, which the first process adds to those of other workers. */
  const figures = () => toFigureData(calls, chargedNano());
  return {
    ...parts,
    ...{
      engines,
      modelStore,
      modelAdmin,
      upstreamMetrics,
      discovery,
      upstreams,
      core,
      cores,
      status,
      figures,
      services,
    },
  };
}

/** Composes authentication, and the administration of keys and sessions. */
function composeAccess(context: Context, state: State, live: LiveRequests) {
  const { clock, backgroundClock, ids, log, adminTokens, lifecycle } = context;
  const { keys, settings, changes, now } = state;
  const sessions = new Sessions({ sessions: state.sessions, now, ids, log });
  const watch = new RevocationWatch({ keys, sessions, live, changes, clock: backgroundClock, now, log });
  lifecycle.onClose("revocation watch", () => watch.close());
  const readBack = new RevocationReadBack({ keys, changes, clock: backgroundClock, log });
  lifecycle.onClose("revocations", () => readBack.close());
  return {
    authenticator: new Authenticator({ keys, sessions, changes, clock, now, adminTokens, log }),
    apiKeys: new ApiKeys({ keys, now, ids, random: randomBytes, onRevoked: (record) => readBack.note(record) }),
    sessions,
    administrator: new Administrator({ settings, sessions, passwords: new Passwords(passwordHash), clock, now, ids }),
    audit: new Audit({ records: state.audit, now, ids, log }),
  };
}

/** Creates the rate limits, which the ledger applies. Resolves when stored limits are read, or the store did not answer. */
async function composeLimits(context: Context, state: State, ledger: Ledger, audit: Audit) {
  const { config, clock, backgroundClock, log, lifecycle } = context;
  const { limits: store, keys, changes, now } = state;
  const defaults = toRateLimitDefaults(config.rate_limits);
  const limitBook = new LimitBook({ store, changes, clock: backgroundClock, log }, defaults);
  lifecycle.onClose("rate limits", () => limitBook.close());
  await limitBook.refresh();
  const rejections = new RejectionCache(clock);
  return {
    limitBook,
    rejections,
    limitsAdmin: new LimitsAdmin({ book: limitBook, store, keys, ledger, rejections, audit, now }),
  };
}

/** Creates accounting, thresholds and usage queries. Resolves when thresholds are read, or the store did not answer. */
async function composeUsage(
  { config, ids, log, lifecycle, backgroundClock: clock, shares }: Context,
  state: State,
  parts: { ledger: Ledger; limitBook: LimitBook; live: LiveRequests; catalog: Catalog; audit: Audit },
) {
  const { ledger, limitBook, live, catalog, audit } = parts;
  const { keys, usage, thresholds: store, changes, endpoints, now } = state;
  const book = new ThresholdBook({ store, changes, clock, log });
  lifecycle.onClose("thresholds", () => book.close());
  await book.refresh();
  const accounting = new Accounting({ thresholds: book, endpoints, now });
  // A gateway admits no requests, and has no prices to settle requests of processes that died.
  if (config.server.role !== "gateway") {
    const leases = new LeaseKeeper({ ledger, live, accounting, catalog, clock, log });
    lifecycle.onClose("leases", () => leases.close());
  }
  const stopPurge = startPurge({ state, clock, log });
  lifecycle.onClose("purge", stopPurge);
  return {
    accounting,
    usage: new UsageQueries({ usage, ledger, limitBook, shares, clock, now }),
    thresholds: new ThresholdAdmin({ store, keys, usage, audit, ids, now }),
  };
}

interface WebhookParts {
  readonly secrets: SecretBox;
  readonly live: LiveRequests;
  readonly audit: Audit;
}

/** Webhook endpoints and their deliveries. `sending` is null when this process sends none. */
function composeWebhooks(context: Context, state: State, parts: WebhookParts) {
  const { config, ids, shares, lifecycle } = context;
  const { secrets, audit } = parts;
  const { webhooks } = config;
  const { endpoints, deliveries: queue, now } = state;
  const sender = createWebhookSender({
    allowHttp: webhooks.allow_http,
    allowPrivateCidrs: webhooks.allow_private_cidrs,
    allowPorts: webhooks.allow_ports,
    dnsServers: webhooks.dns_servers,
    lookups: shares.lookups,
  });
  lifecycle.onClose("webhook connections", () => sender.close());
  if (!webhooks.deliver) {
    const { backgroundClock: clock, log } = context;
    lifecycle.onClose("webhooks", startFanOut({ queue, clock, log }));
  }
  const settings = { endpointsMax: webhooks.endpoints_max, attemptBudgetMs: webhooks.attempt_timeout };
  const endpointDeps = { endpoints, sender, secrets, audit, ids, random: randomBytes, now, settings };
  return {
    webhookEndpoints: new WebhookEndpoints(endpointDeps),
    deliveries: new Deliveries({ queue, endpoints, audit, now }),
    sending: webhooks.deliver ? startSending(context, state, parts, sender) : null,
  };
}

/** Attempts in flight in one process, over all endpoints (WH-37). */
const inFlightMax = 64;

function startSending(
  { config, log, lifecycle, backgroundClock: clock }: Context,
  { kind, deliveries: queue, endpoints, changes, now }: State,
  { secrets, live }: WebhookParts,
  sender: WebhookSender,
): WebhookSources {
  const { attempt_timeout: budgetMs, retry_delays: retryDelaysMs, disable_after: disableAfterMs } = config.webhooks;
  const attempts = { budgetMs, retryDelaysMs, leaseMs: webhookLeaseMs, disableAfterMs };
  const settings = { ...attempts, inFlightMax, isOnlyWorker: kind !== "redis" };
  const metrics = new WebhookMetrics();
  const observer = metrics;
  const dispatcher = new Dispatcher({
    queue,
    endpoints,
    changes,
    secrets,
    sender,
    clock,
    now,
    log,
    observer,
    live,
    settings,
  });
  const stopWatching = watchEventBacklog({ queue, clock, now, log });
  lifecycle.onClose("webhooks", () => {
    stopWatching();
    return dispatcher.close();
  });
  return {
    metrics,
    backlog: () => queue.backlog(),
    waitingEvents: () => queue.waitingEvents(),
    inFlight: () => dispatcher.inFlight,
    now,
  };
}

function composeUpstreamAdmin(
  { upstreams: store, drains, now }: State,
  parts: {
    readonly upstreams: RunningUpstreams;
    readonly drained: DrainedDeployments;
    readonly catalog: Catalog;
    readonly secrets: SecretBox;
    readonly audit: Audit;
  },
) {
  const { upstreams: inUse, audit } = parts;
  const configOf = (url: string, kind: UpstreamKind, models: readonly string[], slots: number | null) =>
    upstreamYaml({ url, kind, keyFile: null }, kind, models, slots);
  return {
    upstreamAdmin: new UpstreamAdmin({ ...parts, store, drains, inUse, now }),
    upstreamChecks: new UpstreamChecks({ inUse, examine: examineUpstream, configOf, audit }),
  };
}

/** Dashboard sessions may write backups into this folder only. It is created for the first backup. */
function composeBackup({ data_dir: dataDir }: Config, { backup }: State) {
  const backupFolder = resolve(dataDir, "backups");
  if (backup === null) return { backup, backupFolder };
  return {
    backupFolder,
    async backup(file: string): Promise<void> {
      if (dirname(file) === backupFolder) await mkdir(backupFolder, { recursive: true, mode: 0o700 });
      await backup(file);
    },
  };
}

function composeDoctor({ examine, lifecycle }: Context, state: State, models: ModelStore) {
  const closing = new AbortController();
  lifecycle.onClose("doctor", () => closing.abort());
  return oneAtATime(() => examine({ state, models, signal: closing.signal }));
}

function composeEngines(
  context: Context,
  parts: { readonly modelStore: ModelStore; readonly pulls: ModelPulls; readonly build: LlamaSettings["build"] },
  metrics: UpstreamMetrics,
): Engines {
  const { config, environment, clock, backgroundClock, ids, log } = context;
  const { stall: stallMs, circuit_crashes: circuitCrashes, threads } = config.engine;
  const { modelStore: store, pulls, build } = parts;
  return {
    scripted: scriptedEngine.create({ clock, ids }),
    openai: openAiEngine.create({ clock, backgroundClock, ids, log, onOutcome: metrics.attemptEnded }),
    llama: llamaEngine.create({
      clock: backgroundClock,
      log,
      files: createModelFiles({ store, pulls, log }),
      settings: { stallMs, circuitCrashes, threads, build },
      environment,
    }),
  };
}
