import { randomBytes } from "node:crypto";
import type { ServiceLimits } from "../contract/limits.js";
import { operationByRpcPath } from "../contract/operations.js";
import { ApiKeys } from "../domain/access/api-keys.js";
import { Authenticator } from "../domain/access/authenticator.js";
import { Catalog } from "../domain/catalog/catalog.js";
import type { Ledger } from "../domain/ledger.js";
import { LiveRequests } from "../domain/live-requests.js";
import type { IdSource, Logger } from "../domain/ports.js";
import { ServiceCore } from "../domain/service-core.js";
import type { State } from "../domain/state.js";
import { createScriptedEngine } from "../engines/scripted/scripted-engine.js";
import { createByteBudget } from "../lib/byte-budget.js";
import { createSystemClock } from "../lib/clock.js";
import { createRandomIds } from "../lib/ids.js";
import { createResponseWatch, type ResponseWatch } from "../lib/response-watch.js";
import type { TlsFiles } from "../lib/tls-files.js";
import { createUploadWatch } from "../lib/upload-watch.js";
import { openEmbeddedState } from "../state/embedded/embedded-state.js";
import { openSqlite } from "../state/embedded/sqlite-binding.js";
import { createVolatileLedger } from "../state/volatile/volatile-ledger.js";
import { createVolatileState } from "../state/volatile/volatile-state.js";
import { createConnectDoor } from "../transports/connect/connect-door.js";
import { createGrpcDoor, type GrpcDoor } from "../transports/grpc/grpc-door.js";
import { createHttpListener, type HttpListener } from "../transports/openai/http-listener.js";
import { createOpenAiDoor, isRestPath } from "../transports/openai/openai-door.js";
import { createOpsDoor, type OpsDoor } from "../transports/ops/ops-door.js";
import { toServiceLimits } from "./config/limits-settings.js";
import type { Config } from "./config/schema.js";
import { type CountedClock, countTimers } from "./counted-clock.js";
import { debugState } from "./debug-state.js";
import type { Lifecycle } from "./lifecycle.js";
import type { Engines } from "./model-definitions.js";
import { publicPages } from "./public-pages.js";
import { readiness } from "./readiness.js";

export interface ComposeInput {
  readonly config: Config;
  readonly tls: TlsFiles | null;
  /** Credentials of the administrator. */
  readonly adminTokens: readonly string[];
  readonly log: Logger;
  readonly lifecycle: Lifecycle;
}

/** The parts of one service, wired but not yet listening. */
export interface Parts {
  readonly state: State;
  readonly core: ServiceCore;
  readonly live: LiveRequests;
  readonly catalog: Catalog;
  readonly engines: Engines;
  readonly apiKeys: ApiKeys;
  readonly http: HttpListener;
  readonly grpc: GrpcDoor;
  readonly ops: OpsDoor;
  debugState(): Promise<object>;
}

/** How often all responses are looked at for stalled readers and silent streams. */
const watchEveryMs = 1_000;

/** The one place that knows which classes make up the service. Whatever it opens, `lifecycle` closes. */
export async function compose(input: ComposeInput): Promise<Parts> {
  const tools = {
    clock: countTimers(createSystemClock()),
    ids: createRandomIds(),
    limits: toServiceLimits(input.config.limits),
    log: input.log,
  };
  const domain = await composeDomain(input, tools);
  return { ...domain, ...(await composeDoors(input, tools, domain)) };
}

/** What nearly every part needs. */
interface Tools {
  readonly clock: CountedClock;
  readonly ids: IdSource;
  readonly limits: ServiceLimits;
  readonly log: Logger;
}

type Domain = Omit<Parts, "http" | "grpc" | "ops" | "debugState"> & { readonly ledger: Ledger };

async function composeDomain({ config, adminTokens, lifecycle }: ComposeInput, tools: Tools): Promise<Domain> {
  const { clock, ids, limits, log } = tools;
  const state = await openState(config, log);
  lifecycle.onClose("state", () => state.close());
  const ledger = createVolatileLedger({ clock });
  const live = new LiveRequests();
  const authenticator = new Authenticator({ keys: state.keys, clock, adminTokens: () => adminTokens, log });
  const apiKeys = new ApiKeys({
    keys: state.keys,
    clock,
    ids,
    random: randomBytes,
    onRevoked(keyId) {
      authenticator.forget(keyId);
      live.abortKey(keyId);
    },
  });
  const engines: Engines = { scripted: createScriptedEngine({ clock, ids }) };
  const catalog = new Catalog({ clock, log, store: state.catalog, queueWaitMs: limits.queueWaitMs });
  lifecycle.onClose("models", () => catalog.replace([]));
  const core = new ServiceCore({ ...tools, authenticator, live, catalog, ledger });
  return { state, ledger, live, apiKeys, engines, catalog, core };
}

async function composeDoors(
  { config, tls, lifecycle }: ComposeInput,
  tools: Tools,
  { core, apiKeys, live, catalog, ledger, state }: Domain,
): Promise<Pick<Parts, "http" | "grpc" | "ops" | "debugState">> {
  const { clock, limits, log } = tools;
  const watch = createResponseWatch({
    intervalMs: Math.max(5, Math.min(watchEveryMs, limits.stallMs / 4, limits.sseKeepAliveMs / 4)),
    stallMs: limits.stallMs,
    keepAliveMs: limits.sseKeepAliveMs,
    now: () => clock.monotonic(),
  });
  lifecycle.onClose("response watch", () => watch.close());
  const http = createHttpDoors({ config, tls, lifecycle }, { ...tools, core, apiKeys, watch });
  lifecycle.onClose("HTTP listener", () => http.close());
  const grpc = createGrpcDoor({ ...tools, core, apiKeys, reflection: config.grpc.reflection, tls });
  lifecycle.onClose("gRPC listener", () => grpc.drain(0));

  const currentState = () =>
    debugState({
      live,
      catalog,
      ledger,
      httpConnections: () => http.connections(),
      grpcConnections: () => grpc.connections(),
      streams: () => watch.size,
      timers: () => clock.pending,
    });
  const ops = createOpsDoor({
    ready: () => readiness(lifecycle.phase, state),
    debugState: currentState,
    log,
  });
  lifecycle.onClose("operations listener", () => ops.close());
  return { http, grpc, ops, debugState: currentState };
}

/** One listener for three protocols: what is no RPC of ours goes on to the REST door. */
function createHttpDoors(
  { config, tls, lifecycle }: Pick<ComposeInput, "config" | "tls" | "lifecycle">,
  deps: Tools & { readonly core: ServiceCore; readonly apiKeys: ApiKeys; readonly watch: ResponseWatch },
): HttpListener {
  const pages = publicPages(() => lifecycle.phase === "ready");
  const { limits, clock } = deps;
  const uploads = createUploadWatch({
    bytesPerSecondMin: limits.bodyRateMin,
    graceMs: limits.bodyRateGraceMs,
    now: () => clock.monotonic(),
  });
  lifecycle.onClose("upload watch", () => uploads.close());
  const shared = { ...deps, bodies: createByteBudget(limits.bodiesBytesMax), uploads };
  const openAi = createOpenAiDoor({ ...shared, keepAlive: config.sse.keep_alive, pages });
  const { cors_origins: corsOrigins, allowed_hosts: allowedHosts } = config.server;
  return createHttpListener({
    ...deps,
    corsOrigins,
    allowedHosts,
    tls,
    handle: createConnectDoor({ ...shared, fallback: openAi }),
    serves: (path) => operationByRpcPath.has(path) || pages.has(path) || isRestPath(path),
  });
}

async function openState(config: Config, log: Logger): Promise<State> {
  if (config.state.durability === "none") return createVolatileState();
  return openEmbeddedState({ dataDir: config.data_dir, log });
}

/** Version of the embedded store's binding, tried on an empty database. Throws when there is no binding. */
export function sqliteVersion(): string {
  const database = openSqlite(":memory:");
  try {
    return String(database.prepare("SELECT sqlite_version() AS version").get()?.["version"]);
  } finally {
    database.close();
  }
}
