import { create, equals } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type System, SystemSchema } from "../../../gen/unified/admin/v1/system_pb.js";
import { version } from "../../contract/version.js";
import { errorOfEnd } from "../call/call-context.js";
import type { CallFigures } from "../call/observer.js";
import type { Clock } from "../call/ports.js";
import type { Catalog } from "../catalog/catalog.js";
import type { CatalogModel } from "../catalog/catalog-model.js";
import type { State } from "./state.js";
import { counterFields, latencyFields } from "./status-history.js";

export interface ServiceStatusDeps {
  readonly clock: Pick<Clock, "now">;
  readonly state: Pick<State, "kind" | "health" | "replicas"> & {
    readonly deliveries: Pick<State["deliveries"], "due">;
  };
  readonly catalog: Pick<Catalog, "all">;
  readonly calls: CallFigures;
  /** Cost of this process's requests in nano-dollars. */
  readonly chargedNano: () => number;
  /** Settlements in the spool. */
  readonly spooled: () => { readonly size: number };
  /** Number of failing endpoints that this process has sent to. */
  readonly endpointsFailing: () => number;
  /** Warnings about the configuration, each with its remedy. */
  readonly warnings: readonly string[];
}

/** Addresses of the listeners. */
export interface Listening {
  /** Configured host of the listeners. */
  readonly host: string;
  readonly httpPort: number;
  readonly grpcPort: number;
  readonly tls: boolean;
}

/** Status of this process and its dependencies, for the dashboard's overview. */
export class ServiceStatus {
  readonly #deps: ServiceStatusDeps;
  readonly #startedAtMs: number;
  #listening: Listening | null = null;

  /** Create it at the start of the process, because it measures the uptime from now. */
  constructor(deps: ServiceStatusDeps) {
    this.#deps = deps;
    this.#startedAtMs = deps.clock.now();
  }

  /** Called once at the start, because the system may have chosen the ports. */
  listensOn(listening: Listening): void {
    this.#listening = listening;
  }

  /** Never rejects: an unavailable store is reported as such. */
  async read(): Promise<System> {
    const { clock, state, catalog, calls, spooled, endpointsFailing, warnings, chargedNano } = this.#deps;
    const counts = calls.counts();
    const [health, due] = await Promise.all([state.health(), dueOrNone(state.deliveries)]);
    return create(SystemSchema, {
      version,
      startedAt: timestampFromMs(this.#startedAtMs),
      now: timestampFromMs(clock.now()),
      state: { ...health, kind: state.kind, replicas: state.replicas(), spooled: BigInt(spooled().size) },
      models: catalog.all().map(modelFields),
      counters: counterFields({ ...counts, costNano: chargedNano() }),
      latencies: latencyFields(calls.durations().since(null)),
      deliveriesDue: BigInt(due),
      endpointsFailing: endpointsFailing(),
      warnings: [...health.warnings, ...warnings],
      listeners: this.#listening ?? undefined,
    });
  }
}

/** Number of due deliveries; 0 if the store is unavailable, which the health of the store reports. */
async function dueOrNone(deliveries: ServiceStatusDeps["state"]["deliveries"]): Promise<number> {
  try {
    return await deliveries.due();
  } catch {
    return 0;
  }
}

function modelFields(model: CatalogModel) {
  const { busy: running, producedTokens, memoryBytes, ...sums } = model.sums();
  return {
    id: model.id,
    state: stateOf(model),
    ...sums,
    running,
    producedTokens: BigInt(producedTokens),
    memoryBytes: BigInt(memoryBytes),
    problem: model.replacedReason ?? model.deployments.find(({ failure }) => failure !== null)?.failure?.message ?? "",
  };
}

function stateOf(model: CatalogModel): "ready" | "unloaded" | "loading" | "failed" {
  if (model.loaded !== null) return "ready";
  if (model.isUnloadedWhileIdle || model.replacedReason !== null) return "unloaded";
  return model.hasFailed ? "failed" : "loading";
}

interface OverviewFeedDeps {
  readonly status: Pick<ServiceStatus, "read">;
  readonly clock: Pick<Clock, "after">;
}

/** A snapshot of the status. */
export interface StatusSnapshot {
  readonly system: System;
  /** Whether something other than the time changed since the previous snapshot. */
  readonly hasChanged: boolean;
}

/** Interval of snapshots while there are watchers. */
export const snapshotEveryMs = 2_000;

interface Taken {
  readonly system: System;
  /** Grows by one with each change. */
  readonly change: number;
}

/**
 * Shares one status poll among all watchers; without watchers there is no timer. A slow watcher gets the latest
 * snapshot.
 */
export class OverviewFeed {
  readonly #deps: OverviewFeedDeps;
  readonly #watchers = new Set<() => void>();
  #latest: Taken | null = null;
  #isReading = false;
  #cancelTimer: () => void = () => {};

  constructor(deps: OverviewFeedDeps) {
    this.#deps = deps;
  }

  /** Yields a snapshot immediately, then each further one, until the signal aborts. Rejects with ServiceError. */
  async *watch(signal: AbortSignal): AsyncGenerator<StatusSnapshot> {
    let wake = (): void => {};
    const notify = (): void => wake();
    this.#watchers.add(notify);
    signal.addEventListener("abort", notify);
    try {
      if (this.#watchers.size === 1 && !this.#isReading) void this.#read();
      let sent: Taken | null = null;
      for (;;) {
        if (signal.aborted) throw errorOfEnd(signal.reason);
        const taken: Taken | null = this.#latest;
        if (taken === null || taken === sent) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
          continue;
        }
        yield { system: taken.system, hasChanged: taken.change !== sent?.change };
        sent = taken;
      }
    } finally {
      signal.removeEventListener("abort", notify);
      this.#watchers.delete(notify);
      if (this.#watchers.size === 0) {
        this.#cancelTimer();
        this.#latest = null;
      }
    }
  }

  async #read(): Promise<void> {
    this.#isReading = true;
    const system = await this.#deps.status.read();
    this.#isReading = false;
    if (this.#watchers.size === 0) return;
    const before = this.#latest;
    const isSame = before !== null && equals(SystemSchema, comparable(before.system), comparable(system));
    this.#latest = { system, change: (before?.change ?? 0) + (isSame ? 0 : 1) };
    this.#cancelTimer = this.#deps.clock.after(snapshotEveryMs, () => void this.#read());
    for (const notify of [...this.#watchers]) notify();
  }
}

/** Smaller changes of a model's memory are ignored, because it changes slightly with every request. */
const memoryStepBytes = 2n ** 26n;

/**
 * The status for comparison: without the time, and with latency and memory rounded roughly, so that only significant changes
 * count.
 */
function comparable(system: System): System {
  const { state, now: _, ...others } = system;
  const models = others.models.map((model) => ({ ...model, memoryBytes: model.memoryBytes / memoryStepBytes }));
  const rest = { ...others, models };
  const latencyMs = 2 ** Math.round(Math.log2(Math.max(1, state?.latencyMs ?? 0)));
  return { ...rest, ...(state === undefined ? {} : { state: { ...state, latencyMs } }) };
}

/** Result of one check of the installation. */
export interface Finding {
  /** The check: `node`, `data_dir`, … */
  readonly check: string;
  readonly status: "ok" | "warn" | "fail";
  readonly detail: string;
  /** The remedy; null if all is well. */
  readonly fix: string | null;
}

/** Runs all checks, which takes seconds. Rejects only for errors in the checks themselves. */
type Examine = () => Promise<readonly Finding[]>;

/**
 * Ensures that only one run of the checks is active, because they start processes and call other servers. Calls during a run
 * get its result.
 */
export function oneAtATime(examine: Examine): Examine {
  let running: ReturnType<Examine> | null = null;
  return () => {
    running ??= examine().finally(() => {
      running = null;
    });
    return running;
  };
}
