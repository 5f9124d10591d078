import { setTimeout as delay } from "node:timers/promises";
import type { ServiceLimits } from "../../contract/limits.js";
import type { CreatedKey } from "../../domain/access/api-keys.js";
import { theService } from "../../domain/access/audit.js";
import { keyDetails } from "../../domain/access/key-store.js";
import type { Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import { isLoopback } from "../../lib/network.js";
import { compose, type Parts } from "../compose/compose.js";
import { fillCatalog } from "../compose/model-catalog.js";
import type { Variables } from "../config/expand.js";
import { toServiceLimits } from "../config/limits-settings.js";
import type { Config } from "../config/schema.js";
import type { Secrets } from "../config/secrets.js";
import { examineService } from "../doctor/examine-service.js";
import { warningsBesideState } from "../doctor/settings.js";
import { newAdminToken, openDataDir, writeAdminToken, writeServiceFile } from "../process/data-folder.js";
import { endGraceMs, Lifecycle, type Phase, StartError, type Stoppable } from "../process/lifecycle.js";
import { type ListenAddresses, listenAll, loadTls } from "../process/listeners.js";
import { createLiveLimits, createReload, type LiveLimits, type Reload } from "./reload.js";

interface ServiceInput {
  readonly config: Config;
  readonly secrets: Secrets;
  readonly log: Logger;
  /** Variables for what is fetched and for the engine's processes: proxies, PATH, HF_ENDPOINT and the like. */
  readonly environment: Variables;
  /** Source of a chat model in the place of the default one; of use only without `models` in the configuration. */
  readonly chatModel?: string | undefined;
}

/** A service that runs. */
export interface Service {
  readonly config: Config;
  readonly addresses: ListenAddresses;
  /** The key of a first start; null when the store had keys or the operator brought one. */
  readonly firstKey: CreatedKey | null;
  /** To be put after the address of the HTTP listener. At a first start it sets the administrator's password, once. */
  readonly dashboardPath: string;
  /** Settles when it is known which chat model there will be, which may take as long as its download. */
  readonly chatChosen: Promise<void>;
  /** Valid as long as this process runs. */
  readonly adminToken: string;
  readonly parts: Parts;
  readonly reload: Reload;
  phase(): Phase;
  /** Drains and closes; never rejects. A second call gets the first one's promise. */
  stop(): Promise<void>;
  /** After the stop: finished requests whose usage could be written nowhere. */
  usageLost(): number;
}

/** How long balancers get to notice a stop, when the listeners can be reached from outside. */
const drainDelayMs = 5_000;

/**
 * Opens the state, wires the parts, listens. When it resolves the service is ready; when it rejects (StartError,
 * StateOpenError) everything that was opened is closed again.
 */
export async function startService(input: ServiceInput): Promise<Service> {
  const { config, log } = input;
  const { host, drain_delay: configured } = config.server;
  const limits = createLiveLimits(toServiceLimits(config.limits));
  const lifecycle = new Lifecycle({
    drainDelayMs: configured ?? (isLoopback(host) ? 0 : drainDelayMs),
    limits: limits.now,
    log,
  });
  try {
    return await open(input, limits, lifecycle);
  } catch (error) {
    await lifecycle.close();
    throw error;
  }
}

async function open(input: ServiceInput, limits: LiveLimits, lifecycle: Lifecycle): Promise<Service> {
  const { config, secrets, log, environment } = input;
  const tls = await loadTls(config.server.tls);
  await openDataDir(config.data_dir);
  const adminToken = newAdminToken();
  const adminTokens = secrets.adminToken === null ? [adminToken] : [adminToken, secrets.adminToken];
  const { masterKey } = secrets;
  const parts = await compose({
    config,
    limits: limits.now,
    tls,
    adminTokens,
    masterKey,
    environment,
    warnings: warningsBesideState(config, environment),
    examine: (running) => examineService({ config, environment, ...running }),
    log,
    lifecycle,
  });
  // Hashing it takes long on purpose: the rest of the start goes on beside it.
  const passwordTaken = takeOverPassword(parts, secrets);
  // It is awaited below; until then a failure of it must not count as one that nobody handles.
  passwordTaken.catch(() => {});

  const firstKey = await registerKeys(parts, secrets);
  // Nothing is loaded for a service that cannot listen.
  const listed = parts.catalog.beginListing();
  const { addresses, listening } = await listenAll(parts, config.server);
  parts.status.listensOn(listening);
  const { catalog, engines, modelStore: store } = parts;
  const { models } = config;
  const filling = await fillCatalog({ catalog, engines, store, models, chatSource: input.chatModel ?? null, log });
  listed();
  lifecycle.track("loading the models", filling.loaded);
  const chatChosen = filling.chosen;
  await Promise.race([chatChosen, delay(choiceMs, undefined, { ref: false })]);
  const tokenFile = await writeAdminToken(config.data_dir, adminToken);
  lifecycle.onClose("admin token", () => tokenFile.remove());
  const { http: url, grpc, ops } = addresses;
  const removeServiceFile = await writeServiceFile(config.data_dir, { url, grpc, ops, pid: process.pid });
  lifecycle.onClose("service.json", removeServiceFile);
  const reload = createReload({ config, limits, parts, log, track: (what, promise) => lifecycle.track(what, promise) });
  lifecycle.onClose("reload", () => reload.close());

  await passwordTaken;
  const dashboardPath = await firstDashboardPath(parts, firstKey);
  parts.grpc.setServing(true);
  lifecycle.started();
  const stoppable = toStoppable(parts, lifecycle, limits.now);
  return {
    config,
    addresses,
    firstKey,
    dashboardPath,
    chatChosen,
    adminToken,
    parts,
    reload,
    phase: () => lifecycle.phase,
    stop: () => lifecycle.stop(stoppable),
    usageLost: () => lifecycle.usageLost,
  };
}

/** The operator's password, when there is one: whoever was signed in with another has to sign in again. */
async function takeOverPassword({ administrator, audit }: Parts, { adminPassword }: Secrets): Promise<void> {
  if (adminPassword === null) return;
  const isNew = await administrator.setPassword(adminPassword);
  if (isNew) await audit.record(theService, "administrator.set_password", "admin");
}

async function registerKeys({ apiKeys, audit }: Parts, { bootstrapApiKey }: Secrets): Promise<CreatedKey | null> {
  if (bootstrapApiKey === null) {
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

/**
 * The set-up link is shown where the first key is: to whoever starts the service for the first time. Later ones are made with
 * `uis admin link`, so that no log of an ordinary start holds a way in.
 */
async function firstDashboardPath({ administrator, setupLinks }: Parts, firstKey: CreatedKey | null): Promise<string> {
  if (firstKey === null || (await administrator.hasPassword())) return "/dashboard/";
  const { path } = await setupLinks.create();
  return path;
}

/** How long the start waits to see whether a model's source can be reached at all. */
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
