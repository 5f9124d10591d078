import { defaultLimits, type ServiceLimits } from "../../src/contract/limits.js";
import type { Operation } from "../../src/contract/operations.js";
import { Authenticator } from "../../src/domain/access/authenticator.js";
import { Sessions } from "../../src/domain/access/sessions.js";
import { type CallContext, type Caller, Ended, type EndReason } from "../../src/domain/call/call-context.js";
import { createFairShares } from "../../src/domain/call/fair-shares.js";
import { LiveRequests } from "../../src/domain/call/live-requests.js";
import type { CallRecorder, CallTracer, Observer } from "../../src/domain/call/observer.js";
import type { Logger } from "../../src/domain/call/ports.js";
import { type RateLimitDefaults, unlimited } from "../../src/domain/call/rate-limits.js";
import { Catalog } from "../../src/domain/catalog/catalog.js";
import type { DeploymentDefinition } from "../../src/domain/catalog/deployment.js";
import { DrainedDeployments } from "../../src/domain/catalog/drained-deployments.js";
import type { PriceList } from "../../src/domain/catalog/prices.js";
import type { Engine } from "../../src/domain/engine/engine.js";
import { Accounting } from "../../src/domain/metering/accounting.js";
import type { Settlement } from "../../src/domain/metering/ledger.js";
import { LimitBook, ThresholdBook } from "../../src/domain/metering/limit-book.js";
import { RejectionCache } from "../../src/domain/metering/limit-response.js";
import { ServiceCore } from "../../src/domain/service/service-core.js";
import { AbortSource } from "../../src/lib/abort-source.js";
import { createRandomIds } from "../../src/lib/crypto.js";
import { openMemoryState } from "../../src/state/embedded/memory-state.js";
import { deploymentOn } from "./deployments.js";
import { FakeClock } from "./fake-clock.js";
import { silentLog } from "./silent-log.js";

export const adminToken = "administrator-of-the-harness";

export const blindObserver: Observer = {
  callEnded: () => {},
  limitHit: () => {},
  usageLost: () => {},
  promptEstimated: () => {},
};

const noRateLimits: RateLimitDefaults = { key: unlimited, account: unlimited, models: new Map() };

export interface HarnessCall {
  readonly ctx: CallContext;
  /** Ends the call from outside, as a transport would. */
  end(why: EndReason): void;
}

/** A real core over state in memory and a clock that the test moves; every model `m` runs on the given engines. */
export async function createCoreHarness(options: {
  engines: readonly Engine[];
  limits?: Partial<ServiceLimits>;
  deployment?: Partial<DeploymentDefinition>;
  /** Engines of other models by their ids, which are the fallbacks of `m` in this order. */
  fallbacks?: Readonly<Record<string, Engine>>;
  rateLimits?: RateLimitDefaults;
  prices?: PriceList;
  log?: Logger;
  observer?: Observer;
  tracer?: CallTracer;
  recorder?: CallRecorder;
}) {
  const clock = new FakeClock();
  const limits = { ...defaultLimits, ...options.limits };
  const ids = createRandomIds();
  const state = openMemoryState({ clock });
  const { keys, ledger, changes } = state;
  const now = () => state.now();
  // The books have a separate clock, because their timers do not belong to a call.
  const books = { changes, clock: new FakeClock(), log: silentLog };
  const thresholdBook = new ThresholdBook({ ...books, store: state.thresholds });
  const limitBook = new LimitBook({ ...books, store: state.limits }, options.rateLimits ?? noRateLimits);
  const settlements: Settlement[] = [];
  const live = new LiveRequests();
  const backgroundClock = books.clock;
  const random = () => 0.5;
  const drained = new DrainedDeployments({ ...books, store: state.drains });
  const catalog = new Catalog({
    clock,
    backgroundClock,
    log: silentLog,
    store: state.catalog,
    limits,
    random,
    drained,
  });
  const model = {
    ownedBy: "test",
    capabilities: null,
    prices: [],
    defaults: null,
    affinity: "none",
    fallbacks: [],
  } as const;
  const others = Object.entries(options.fallbacks ?? {});
  await catalog.replace([
    {
      ...model,
      id: "m",
      prices: options.prices ?? [],
      fallbacks: others.map(([id]) => id),
      deployments: options.engines.map((engine, priority) => deploymentOn(engine, { priority, ...options.deployment })),
    },
    ...others.map(([id, engine]) => ({ ...model, id, deployments: [deploymentOn(engine)] })),
  ]);
  const core = new ServiceCore({
    authenticator: new Authenticator({
      keys,
      sessions: new Sessions({ sessions: state.sessions, now, ids, log: silentLog }),
      changes,
      clock,
      now,
      adminTokens: [adminToken],
      log: silentLog,
    }),
    catalog,
    ledger: {
      admit: (request) => ledger.admit(request),
      chargeRefused: (request) => ledger.chargeRefused(request),
      answerBegins: () => ledger.answerBegins(),
      settle: (settlement) => {
        settlements.push(settlement);
        return ledger.settle(settlement);
      },
    },
    accounting: new Accounting({ thresholds: thresholdBook, endpoints: state.endpoints, now }),
    limitBook,
    rejections: new RejectionCache(clock),
    live,
    limits,
    shares: createFairShares(),
    clock,
    ids,
    log: options.log ?? silentLog,
    observer: options.observer ?? blindObserver,
    tracer: options.tracer ?? null,
    recorder: options.recorder ?? null,
  });
  const open = async (
    operation: Operation = "create_chat_completion",
    deadlineAtMs = Number.POSITIVE_INFINITY,
    changes: Partial<Caller> = {},
  ): Promise<HarnessCall> => {
    const abort = new AbortSource();
    const caller = {
      authorization: `Bearer ${adminToken}`,
      deadlineAtMs,
      abort,
      transport: "openai",
      address: "127.0.0.1",
      ...changes,
    } as const;
    const ctx = await core.open(operation, caller);
    return { ctx, end: (why) => abort.abort(new Ended(why)) };
  };
  return { core, clock, live, ledger, catalog, state, limitBook, thresholdBook, settlements, open };
}
