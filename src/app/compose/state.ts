import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { CircuitBreaker } from "../../domain/call/circuit-breaker.js";
import type { Clock, Logger } from "../../domain/call/ports.js";
import { ServiceError } from "../../domain/call/service-error.js";
import type { SpoolLevel } from "../../domain/metering/ledger.js";
import { LocalAdmission } from "../../domain/metering/local-admission.js";
import { ResilientLedger, SpoolReplay } from "../../domain/metering/resilient-ledger.js";
import { type State, StateOpenError } from "../../domain/service/state.js";
import type { StoredUpstream } from "../../domain/upstreams/upstream-store.js";
import { restoreEmbeddedState } from "../../state/embedded/database/restore.js";
import { openSqlite } from "../../state/embedded/database/sqlite.js";
import { inspectStateFile } from "../../state/embedded/database/state-check.js";
import { databaseFile, isStateInUse } from "../../state/embedded/database/state-file.js";
import { openMemoryState } from "../../state/embedded/memory-state.js";
import { openEmbeddedState } from "../../state/embedded/state.js";
import { repairTimes } from "../../state/embedded/time-repair.js";
import { readStoredUpstreams } from "../../state/embedded/upstreams.js";
import { FileSpool } from "../../state/spool/file-spool.js";
import type { Config } from "../config/schema.js";
import type { Lifecycle } from "../process/lifecycle.js";
import type { Context, WorkerContext } from "./context.js";

/** Maximum concurrent requests that this process admits by itself while a shared store is unavailable. */
const localLeasesMax = 100_000;

const messagesOfLimits = {
  unavailable: "the store does not answer in time: this process applies limits by itself",
  recovered: "the store applies limits again",
};
const messagesOfUsage = {
  unavailable: "the store does not accept usage: it is kept in the spool",
  recovered: "the store accepts usage again",
};

/** How long a command tries to reach Redis; short, because a person waits for it. */
export const commandTimeoutMs = 5_000;
/** How long a request waits until Redis has stored its usage; afterwards the usage is written to the spool. */
const settleTimeoutMs = 250;

interface StateTools {
  readonly clock: Clock;
  readonly log: Logger;
  /** Tells whether the service is starting: only then is a slow Redis waited for. */
  readonly lifecycle?: Pick<Lifecycle, "phase">;
  /** How long to wait for Redis; default: `state.start_timeout`. */
  readonly openWithinMs?: number;
  /** Whether an empty embedded database replaces a lost one. */
  readonly newStore?: boolean;
}

/** Opens the store of the configuration. Rejects with StateOpenError. */
export async function openState(config: Config, tools: StateTools): Promise<State> {
  const { clock, log, lifecycle, openWithinMs, newStore = false } = tools;
  const { redis_url: url, durability, allow_volatile: allowVolatile } = config.state;
  const { clock_lead_max: clockLeadMaxMs } = config.state;
  if (durability === "none") return openMemoryState({ clock, log, clockLeadMaxMs });
  if (url === null) return await openEmbeddedState({ dataDir: config.data_dir, log, clock, clockLeadMaxMs, newStore });
  // Loaded on demand: the client takes 13 MB and 70 ms.
  const { openRedisState } = await import("../../state/redis/state.js");
  return await openRedisState({
    ...{ url, tls: redisTlsOf(config), log, clock, allowVolatile },
    openWithinMs: openWithinMs ?? config.state.start_timeout,
    isStarting: () => lifecycle?.phase === "starting",
    serves: lifecycle !== undefined,
  });
}

/** TLS files for Redis; null: none are set. */
export function redisTlsOf({ state: { redis_tls: files } }: Config) {
  const tls = {
    caFile: files.ca_file,
    certFile: files.cert_file,
    keyFile: files.key_file,
    serverName: files.server_name,
  };
  return Object.values(tls).some((value) => value !== null) ? tls : null;
}

const noSpool: SpoolLevel = Object.freeze({ size: 0, sizeMax: 1, memoryOnly: 0, fault: null, oldestAtMs: null });

/**
 * A ledger that works while the store is unavailable: settlements wait in the data folder, and this process applies the
 * limits that replicas share. State in memory needs neither.
 */
export async function composeLedger({ config, lifecycle, clock, log, observer, worker }: Context, state: State) {
  if (state.kind === "volatile") {
    return { ledger: state.ledger, spooled: (): SpoolLevel => noSpool, areLimitsDegraded: () => false };
  }
  const { spool_max: sizeMax, spool_full: whenFull, when_away: whenAway } = config.state;
  const folders = await spoolFolders(config.data_dir, worker);
  const spool = await FileSpool.open({ ...folders, spillDir: config.spill_dir, sizeMax, log });
  const breakers = {
    admissions: new CircuitBreaker({ clock, log, messages: messagesOfLimits }),
    settlements: new CircuitBreaker({ clock, log, messages: messagesOfUsage }),
  };
  const ledger = new ResilientLedger({
    inner: state.ledger,
    breakers,
    spool,
    local: state.kind === "redis" ? new LocalAdmission(clock, localLeasesMax) : null,
    whenAway,
    whenFull,
    replicas: state.replicas,
    clock,
    onUnrecorded: ({ requestId, account, promptTokens, completionTokens }) => {
      observer.usageLost();
      log.error(
        { request_id: requestId, account, prompt_tokens: promptTokens, completion_tokens: completionTokens },
        "the usage of a request is lost: the spool is full",
      );
    },
  });
  const promptMs = state.kind === "redis" ? settleTimeoutMs : Number.POSITIVE_INFINITY;
  const onAnswered = () => breakers.settlements.succeeded();
  const replay = new SpoolReplay({ ledger: state.ledger, spool, clock, log, onAnswered, promptMs });
  lifecycle.onClose("spool", async () => {
    await replay.close();
    const lost = await spool.close();
    if (lost === 0) return;
    lifecycle.usageLost += lost;
    log.error(
      { settlements: lost, fault: spool.fault },
      "the usage of finished requests is lost: neither the data folder nor UIS_SPILL_DIR can be written",
    );
  });
  return { ledger, spooled: (): SpoolLevel => spool, areLimitsDegraded: () => breakers.admissions.isUnavailable };
}

/**
 * The spool of this process: `spool`, or `spool/<n>` of a worker. The only process, and the first worker, also
 * store the settlements in spools of former workers.
 */
async function spoolFolders(dataDir: string, worker: WorkerContext | null) {
  const whole = join(dataDir, "spool");
  const folder = worker === null ? whole : join(whole, String(worker.number));
  if (worker !== null && worker.number !== 1) return { folder, adopted: [] };
  const names = await readdir(whole).catch(() => []);
  const former = names.filter((name) => /^[1-9]\d?$/.test(name) && Number(name) > (worker?.count ?? 0));
  return { folder, adopted: [...(worker === null ? [] : [whole]), ...former.map((name) => join(whole, name))] };
}

/** Copies the state of a stopped service. Rejects with StateOpenError if there is none, or a service is running. */
export async function backUpStoppedState(dataDir: string, file: string, tools: StateTools): Promise<void> {
  if (!existsSync(databaseFile(dataDir))) {
    throw new StateOpenError(`there is no state in ${dataDir}`, "name the data folder of the service with --data-dir");
  }
  const state = await openEmbeddedState({ dataDir, ...tools });
  try {
    await state.backup?.(file);
  } finally {
    await state.close();
  }
}

export { inspectStateFile, isStateInUse, repairTimes, restoreEmbeddedState };

/** The stored upstreams, without starting a service. Empty if the store cannot be read, for which there are other checks. */
export async function listStoredUpstreams(config: Config, tools: StateTools): Promise<readonly StoredUpstream[]> {
  if (config.state.durability === "none") return [];
  if (config.state.redis_url === null) return readStoredUpstreams(config.data_dir);
  try {
    const state = await openState(config, { ...tools, openWithinMs: commandTimeoutMs });
    return await state.upstreams.list().finally(() => state.close());
  } catch (error) {
    if (error instanceof StateOpenError || error instanceof ServiceError) return [];
    throw error;
  }
}

/** Version of SQLite, from an empty database. Throws when the binding does not load. */
export function sqliteVersion(): string {
  const database = openSqlite(":memory:");
  try {
    return String(database.prepare("SELECT sqlite_version() AS version").get()?.["version"]);
  } finally {
    database.close();
  }
}
