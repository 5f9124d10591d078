import { setTimeout as delay } from "node:timers/promises";
import type { ServiceLimits } from "../../contract/limits.js";
import type { CreatedKey } from "../../domain/access/api-keys.js";
import { theService } from "../../domain/access/audit.js";
import { keyDetails } from "../../domain/access/key-store.js";
import type { Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { UpstreamDefinition } from "../../domain/engine/upstream.js";
import { recordPull } from "../../domain/rpc/model-admin-service.js";
import { compose, type Parts } from "../compose/compose.js";
import type { WorkerContext } from "../compose/context.js";
import { fillCatalog } from "../compose/model-catalog.js";
import { modelIndexFault } from "../compose/model-store.js";
import type { Variables } from "../config/expand.js";
import { toServiceLimits } from "../config/limits-settings.js";
import type { Config } from "../config/schema.js";
import type { Secrets } from "../config/secrets.js";
import { ok } from "../doctor/check.js";
import { examineInstallation, examineMachine } from "../doctor/examine.js";
import { fallbackChecks, warningsExceptState } from "../doctor/settings.js";
import { upstreamChecks } from "../doctor/upstreams.js";
import { announce, checkDataFiles, newAdminToken, openDataDir, toStartError } from "../process/data-folder.js";
import { collectWhenIdle } from "../process/idle-collection.js";
import { drainDelayMsOf, endGraceMs, Lifecycle, type Phase, StartError, type Stoppable } from "../process/lifecycle.js";
import { type ListenAddresses, listenAll, loadOpsToken, loadTls } from "../process/listeners.js";
import { connectionsWithin, openFilesLimit } from "../process/open-files.js";
import { createLiveLimits, createReload, type LiveLimits, type Reload } from "./reload.js";

interface ServiceInput {
  readonly config: Config;
  readonly secrets: Secrets;
  /** Upstreams of the configuration, with their keys and certificates. */
  readonly upstreams: readonly UpstreamDefinition[];
  readonly log: Logger;
  /** Variables for downloads and for the engine's processes: proxies, PATH, HF_ENDPOINT. */
  readonly environment: Variables;
  /** Source of a chat model that replaces the default one; only without `models` in the configuration. */
  readonly chatModel?: string | undefined;
  /** Whether an empty database replaces a lost one. */
  readonly newStore?: boolean | undefined;
  /** This process as one of several workers; absent: the only process. */
  readonly worker?: WorkerContext | undefined;
}

/** A running service. */
export interface Service {
  readonly config: Config;
  readonly addresses: ListenAddresses;
  /** The API key that a first start creates; null if the store had keys or the operator set one. */
  readonly firstKey: CreatedKey | null;
  /** Path on the HTTP listener. At a first start it has the one-time token that sets the administrator's password. */
  readonly dashboardPath: string;
  /** Whether the administrator has a password. */
  readonly hasPassword: boolean;
  /** Settles when the chat model is chosen, which may take as long as its download. */
  readonly chatChosen: Promise<void>;
  /** Resolves when every model is loaded or has failed. */
  readonly modelsLoaded: Promise<void>;
  /** The administrator's token that is valid as long as this process runs. */
  readonly adminToken: string;
  readonly parts: Parts;
  readonly reload: Reload;
  phase(): Phase;
  /** Drains and closes; never rejects. A second call gets the first one's promise. `drainMs`: instead of the configured times. */
  stop(drainMs?: number | null): Promise<void>;
  /** After the stop: finished requests whose usage could not be written anywhere. */
  usageLost(): number;
}

/**
 * Opens the state, wires the parts, listens. Resolves when the service is ready. If it rejects (StartError,
 * StateOpenError), everything that was opened is closed again.
 */
export async function startService(input: ServiceInput): Promise<Service> {
  const { config, log } = input;
  const limits = createLiveLimits(toServiceLimits(config.limits));
  const lifecycle = new Lifecycle({
    drainDelayMs: drainDelayMsOf(config.server),
    limits: limits.now,
    log,
  });
  try {
    return await open({ ...input, ...modelsOfRole(input) }, limits, lifecycle);
  } catch (error) {
    await lifecycle.close();
    throw toRefusal(error, config);
  }
}

/** Turns a fault of the data folder into an error with cause and fix; returns any other error unchanged. */
function toRefusal(error: unknown, { data_dir: dataDir, state }: Config): unknown {
  const damagedIndex = modelIndexFault(error);
  if (damagedIndex !== null) {
    return new StartError(damagedIndex, "or choose another data folder with --data-dir (UIS_DATA_DIR)", {
      cause: error,
    });
  }
  const isEmbedded = state.redis_url === null && state.durability !== "none";
  if (!(isEmbedded && error instanceof ServiceError && error.code === "storage_unavailable")) {
    return toStartError(error, dataDir);
  }
  const what = error.message.replace(/^The store cannot be used: |\.$/g, "");
  const fix = "free some space on its disk, and make it writable for this user";
  return new StartError(`the data folder ${dataDir} cannot be used: ${what}`, fix, { cause: error });
}

async function open(input: ServiceInput, limits: LiveLimits, lifecycle: Lifecycle): Promise<Service> {
  const { config, secrets, log, environment, worker = null } = input;
  // Checked before anything is opened: with too few open files the start would fail at an arbitrary step.
  const connectionsMax = connectionsWithin(openFilesLimit());
  const tls = await loadTls(config.server.tls);
  const opsToken = await loadOpsToken(config.server);
  await openDataDir(config.data_dir);
  await checkDataFiles(config.data_dir);
  const adminToken = worker?.adminToken ?? newAdminToken();
  const adminTokens = secrets.adminToken === null ? [adminToken] : [adminToken, secrets.adminToken];
  const { masterKey } = secrets;
  const parts = await compose({
    config,
    limits: limits.now,
    connectionsMax,
    tls,
    opsToken,
    folderToken: adminToken,
    adminTokens,
    masterKey,
    environment,
    warnings: warningsExceptState(config, environment),
    examine: async (running) => [
      ...(await examineMachine()),
      ok("config", "this service runs with it"),
      ...(await examineInstallation(config, environment, running)),
      ...(await upstreamChecks(config, parts.upstreams.definitions)),
      ...fallbackChecks(config, servedIds(parts)),
    ],
    newStore: input.newStore === true,
    worker,
    log,
    lifecycle,
  });
  // Hashing is slow on purpose, so it runs in parallel with the rest of the start.
  const isFirst = worker === null || worker.isFirst;
  const passwordSet = isFirst ? setPassword(parts, secrets) : Promise.resolve();
  // It is awaited below; until then its rejection must not be reported as unhandled.
  passwordSet.catch(() => {});

  const firstKey = await registerKeys(parts, secrets, isFirst);
  // Models are loaded only after the listeners have started.
  const listed = parts.catalog.beginListing();
  const { addresses, listening } = await listen(parts, config.server, worker);
  parts.status.listensOn(listening);
  const chatSource = input.chatModel ?? null;
  const isGateway = config.server.role === "gateway";
  if (!isGateway) parts.upstreams.take(input);
  const configured = { config, upstreams: parts.upstreams.definitions };
  const modelStore = worker === null ? parts.modelStore : withoutModels(parts.modelStore);
  const { chosen: chatChosen, loaded } = await fillCatalog({ ...parts, modelStore, configured, chatSource, log });
  if (!isGateway) await parts.upstreams.offer();
  listed();
  lifecycle.track("loading the models", loaded);
  const modelsLoaded = loaded.catch(() => {});
  if (worker === null) await parts.modelAdmin.resumePulls((model) => recordPull(parts.audit, theService, model));
  await Promise.race([chatChosen, delay(choiceMs, undefined, { ref: false })]);
  if (worker === null) {
    for (const remove of await announce(config.data_dir, adminToken, addresses)) lifecycle.onClose("its files", remove);
  }
  const reload = createReload({
    config,
    tls,
    upstreams: input.upstreams,
    limits,
    parts,
    log: worker === null || worker.number === 1 ? log : onlyFailures(log),
    track: (what, promise) => lifecycle.track(what, promise),
  });
  lifecycle.onClose("reload", () => reload.close());

  lifecycle.onClose("idle collection", collectWhenIdle({ calls: () => parts.live.size }));

  await passwordSet;
  const hasPassword = await parts.administrator.hasPassword();
  const dashboardPath = await firstDashboardPath(parts, hasPassword ? null : firstKey);
  parts.grpc.setServing(true);
  lifecycle.started();
  const stoppable = toStoppable(parts, lifecycle, limits.now);
  return {
    config,
    addresses,
    firstKey,
    dashboardPath,
    hasPassword,
    chatChosen,
    modelsLoaded,
    adminToken,
    parts,
    reload: {
      apply(next, nextUpstreams) {
        const { config, upstreams } = modelsOfRole({ config: next, upstreams: nextUpstreams });
        return reload.apply(config, upstreams);
      },
      close: () => reload.close(),
    },
    phase: () => lifecycle.phase,
    stop: (drainMs = null) => lifecycle.stop(stoppable, drainMs),
    usageLost: () => lifecycle.usageLost,
  };
}

/** A gateway has no models of its own: those of its configuration are ignored. */
function modelsOfRole({ config, upstreams }: Pick<ServiceInput, "config" | "upstreams">) {
  if (config.server.role !== "gateway") return { config, upstreams };
  return { config: { ...config, models: [], upstreams: {} }, upstreams: [] };
}

/** Starts the listeners. A worker gets its ports from the first process, which also has the listener for operators. */
async function listen({ http, grpc, ops }: Parts, server: Config["server"], worker: WorkerContext | null) {
  if (worker === null) {
    if (ops === null) throw new Error("the listener for operators is missing");
    return await listenAll({ http, grpc, ops }, server);
  }
  return await listenAll({ http, grpc, ops: worker.ops }, { ...server, ...(await worker.ports()) });
}

/** A store that lists no models, for workers: stored models run in the embedded engine, which workers do not have. */
function withoutModels(store: Parts["modelStore"]): Parts["modelStore"] {
  return { ...store, list: async () => [] };
}

/** A log for all workers but one: only one worker logs the changes of a reload, each worker logs its own failures. */
function onlyFailures(log: Logger): Logger {
  const nothing = (): void => {};
  return { debug: nothing, info: nothing, warn: nothing, error: log.error };
}

/** Ids of the models of the catalog. */
export function servedIds({ catalog }: Pick<Parts, "catalog">): ReadonlySet<string> {
  return new Set(catalog.all().map(({ id }) => id));
}

/** Sets the operator's password, if there is one. A new password ends all sessions. */
async function setPassword({ administrator, audit }: Parts, { adminPassword }: Secrets): Promise<void> {
  if (adminPassword === null) return;
  const isNew = await administrator.setPassword(adminPassword);
  if (isNew) await audit.record(theService, "administrator.set_password", "admin");
}

async function registerKeys(
  { apiKeys, audit }: Parts,
  { bootstrapApiKey }: Secrets,
  isFirst: boolean,
): Promise<CreatedKey | null> {
  if (bootstrapApiKey === null) {
    if (!isFirst) return null;
    const first = await apiKeys.ensureFirst();
    if (first !== null) {
      await audit.record(theService, "api_key.create", first.record.id, keyDetails(first.record));
    }
    return first;
  }
  try {
    await apiKeys.registerBootstrap(bootstrapApiKey);
    return null;
  } catch (cause) {
    if (!(cause instanceof ServiceError)) throw cause;
    throw new StartError(`UIS_BOOTSTRAP_API_KEY: ${cause.message}`, "choose another text", { cause });
  }
}

/** Only a first start shows a set-up link, with the first key, so that the log of a later start contains no credential. */
async function firstDashboardPath({ administrator }: Parts, firstKey: CreatedKey | null): Promise<string> {
  if (firstKey === null) return "/dashboard/";
  const { path } = await administrator.createSetupLink();
  return path;
}

/** How long the start waits for the choice of the chat model. */
const choiceMs = 500;

function toStoppable({ core, live, http, grpc }: Parts, lifecycle: Lifecycle, limits: ServiceLimits): Stoppable {
  return {
    announceStop: () => grpc.setServing(false),
    refuseNew() {
      core.refuseNewCalls();
      http.beginDrain();
      lifecycle.track("draining the gRPC listener", grpc.drain(limits.drainMs + endGraceMs));
    },
    emptied: () => live.emptied(),
    endCalls: () => live.abortAll("shutting_down"),
  };
}
