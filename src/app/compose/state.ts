import { existsSync } from "node:fs";
import { join } from "node:path";
import { CircuitBreaker } from "../../domain/call/circuit-breaker.js";
import type { Observer } from "../../domain/call/observer.js";
import type { Clock, Logger } from "../../domain/call/ports.js";
import type { Ledger } from "../../domain/metering/ledger.js";
import { LocalAdmission } from "../../domain/metering/local-admission.js";
import { ResilientLedger } from "../../domain/metering/resilient-ledger.js";
import { type SpoolLevel, SpoolReplay } from "../../domain/metering/spool.js";
import { type State, StateOpenError } from "../../domain/service/state.js";
import { openSqlite } from "../../state/embedded/database/sqlite.js";
import { databaseFile } from "../../state/embedded/database/state-file.js";
import { openMemoryState } from "../../state/embedded/memory-state.js";
import { restoreEmbeddedState } from "../../state/embedded/restore.js";
import { openEmbeddedState } from "../../state/embedded/state.js";
import { openRedisState } from "../../state/redis/state.js";
import { FileSpool } from "../../state/spool/file-spool.js";
import type { Config } from "../config/schema.js";
import type { Lifecycle } from "../process/lifecycle.js";

/** Requests that this process may admit by itself at once, while a shared store is away. */
const localLeasesMax = 100_000;

const messagesOfLimits = {
  unavailable: "the store does not answer in time: this process decides limits by itself",
  recovered: "the store decides limits again",
};
const messagesOfUsage = {
  unavailable: "the store takes no usage: it waits in the spool",
  recovered: "the store takes usage again",
};

interface StateTools {
  readonly clock: Clock;
  readonly log: Logger;
}

/** The store that the configuration names. Rejects with StateOpenError. */
export async function openState(config: Config, { clock, log }: StateTools): Promise<State> {
  const { redis_url: url, redis_tls, durability, allow_volatile: allowVolatile } = config.state;
  if (durability === "none") return openMemoryState({ clock });
  if (url === null) return await openEmbeddedState({ dataDir: config.data_dir, log, clock });
  const tls = {
    caFile: redis_tls.ca_file,
    certFile: redis_tls.cert_file,
    keyFile: redis_tls.key_file,
    serverName: redis_tls.server_name,
  };
  const hasTls = Object.values(tls).some((value) => value !== null);
  return await openRedisState({ url, tls: hasTls ? tls : null, log, clock, allowVolatile });
}

const noSpool: SpoolLevel = Object.freeze({ size: 0, sizeMax: 1, memoryOnly: 0, fault: null, oldestAtMs: null });

export interface DurableLedger {
  readonly ledger: Ledger;
  /** Settlements that wait for the store. */
  readonly spooled: () => SpoolLevel;
  /** Whether limits are decided without the shared store. */
  readonly isAway: () => boolean;
}

/**
 * The store's ledger, made to go on when the store does not: settlements wait in the data folder, and what replicas share
 * is decided here meanwhile. State in memory needs none of it.
 */
export async function composeLedger(
  { config, lifecycle }: { readonly config: Config; readonly lifecycle: Lifecycle },
  { clock, log, observer }: StateTools & { readonly observer: Pick<Observer, "usageLost"> },
  state: State,
): Promise<DurableLedger> {
  if (state.kind === "volatile") {
    return { ledger: state.ledger, spooled: () => noSpool, isAway: () => false };
  }
  const { spool_max: sizeMax, spool_full: whenFull, when_away: whenAway } = config.state;
  const folder = join(config.data_dir, "spool");
  const spool = await FileSpool.open({ folder, spillDir: config.spill_dir, sizeMax, log });
  const breakers = {
    admissions: new CircuitBreaker({ clock, log, messages: messagesOfLimits }),
    settlements: new CircuitBreaker({ clock, log, messages: messagesOfUsage }),
  };
  const ledger = new ResilientLedger({
    inner: state.ledger,
    breakers,
    spool,
    local: state.kind === "redis" ? new LocalAdmission({ clock, leasesMax: localLeasesMax }) : null,
    whenAway,
    whenFull,
    replicas: () => state.replicas(),
    clock,
    onUnrecorded: ({ requestId, account, promptTokens, completionTokens }) => {
      observer.usageLost();
      log.error(
        { request_id: requestId, account, prompt_tokens: promptTokens, completion_tokens: completionTokens },
        "the usage of a request is lost: the spool is full",
      );
    },
  });
  const onAnswered = () => breakers.settlements.succeeded();
  const replay = new SpoolReplay({ ledger: state.ledger, spool, clock, log, onAnswered });
  lifecycle.onClose("spool", async () => {
    await replay.close();
    const lost = await spool.close();
    if (lost === 0) return;
    lifecycle.usageWasLost(lost);
    log.error(
      { settlements: lost, fault: spool.fault },
      "the usage of finished requests is lost: neither the data folder nor UIS_SPILL_DIR can be written",
    );
  });
  return { ledger, spooled: () => spool, isAway: () => breakers.admissions.isUnavailable };
}

/** Copies the state of a service that does not run. Rejects with StateOpenError, also when one does run or none was kept. */
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

export { restoreEmbeddedState };

/** Version of the embedded store's binding, tried on an empty database. Throws when there is no binding. */
export function sqliteVersion(): string {
  const database = openSqlite(":memory:");
  try {
    return String(database.prepare("SELECT sqlite_version() AS version").get()?.["version"]);
  } finally {
    database.close();
  }
}
