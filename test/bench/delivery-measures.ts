import { statSync } from "node:fs";
import { join } from "node:path";
import { requestCompleted } from "../../src/domain/events/events.js";
import type { State } from "../../src/domain/service/state.js";
import type { WebhookSender } from "../../src/domain/webhooks/delivery.js";
import type { Claim } from "../../src/domain/webhooks/delivery-queue.js";
import { Dispatcher } from "../../src/domain/webhooks/dispatcher.js";
import type { EndpointRecord } from "../../src/domain/webhooks/endpoint-store.js";
import { createSystemClock } from "../../src/lib/clock.js";
import type { SecretBox } from "../../src/lib/crypto.js";
import { settlement } from "../support/records.js";
import { silentLog } from "../support/silent-log.js";

const leaseMs = 15_000;
const atOnce = 64;
const account = "default";

/** Registers the one endpoint that all deliveries go to. */
export async function registerEndpoint(state: State, box: SecretBox, url: string, secret: string): Promise<void> {
  const id = "we_measured";
  const endpoint: EndpointRecord = {
    id,
    account,
    url,
    description: "",
    events: ["request.completed"],
    status: "enabled",
    disabledReason: null,
    maxInFlight: atOnce,
    secrets: [{ sealed: box.seal(secret, id), hint: secret.slice(-4), expiresAtMs: null }],
    version: 1,
    createdAtMs: state.now(),
    updatedAtMs: state.now(),
  };
  await state.endpoints.insert(endpoint, 1);
}

/** Settles the given number of requests, each of which creates one delivery. */
export async function makeDeliveries(state: State, name: string, count: number): Promise<void> {
  let made = 0;
  const oneAfterTheOther = async (): Promise<void> => {
    while (made < count) {
      const requestId = `req_${name}_${made++}`;
      const facts = { requestId, model: "m", promptTokens: 10, completionTokens: 5, latencyMs: 1 };
      await state.ledger.settle(settlement(requestId, { account, event: requestCompleted(facts, state.now()) }));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, oneAfterTheOther));
}

/** Number of concurrent loops of a worker: while one ends its deliveries, the other claims the next. */
const lanes = 2;

/** Deliveries that a worker claims and ends in a second, without sending anything. */
export async function claimAndFinish(state: State, count: number): Promise<number> {
  const startedMs = performance.now();
  let ended = 0;
  const lane = async (): Promise<void> => {
    while (ended < count) {
      const { claims, nextInMs } = await state.deliveries.claim({ max: atOnce / lanes, leaseMs });
      if (claims.length === 0 && nextInMs === null && ended < count) throw new Error("deliveries are missing");
      await Promise.all(claims.map((claim) => finish(state, claim)));
      ended += claims.length;
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  return count / ((performance.now() - startedMs) / 1_000);
}

async function finish(state: State, claim: Claim): Promise<void> {
  const startedAtMs = state.now();
  const result = { startedAtMs, latencyMs: 1, status: 200, error: null, ip: null, response: "", retryAfter: null };
  const health = await state.deliveries.finish({ claim, result, outcome: { state: "delivered" } });
  if (health === null) throw new Error("a claim was lost");
}

export interface DispatchRate {
  readonly deliveriesPerSecond: number;
  /** Processor time of this process, including its store and signing, without the receiver. */
  readonly cpuUsPerDelivery: number;
}

/** Deliveries per second over HTTP, from claim to finish. */
export async function dispatch(
  state: State,
  { box, sender, count }: { readonly box: SecretBox; readonly sender: WebhookSender; readonly count: number },
): Promise<DispatchRate> {
  const before = process.cpuUsage();
  const startedMs = performance.now();
  let ended = 0;
  await new Promise<void>((resolve, reject) => {
    const dispatcher = new Dispatcher({
      queue: state.deliveries,
      endpoints: state.endpoints,
      changes: state.changes,
      secrets: box,
      sender,
      clock: createSystemClock(),
      now: () => state.now(),
      log: silentLog,
      observer: {
        attemptEnded() {
          ended += 1;
          if (ended === count) dispatcher.close().then(resolve, reject);
        },
        endpointsFailing() {},
      },
      live: { size: 0 },
      settings: {
        budgetMs: 5_000,
        retryDelaysMs: [30_000],
        leaseMs,
        inFlightMax: atOnce,
        isOnlyWorker: true,
        disableAfterMs: 0,
      },
    });
  });
  const used = process.cpuUsage(before);
  return {
    deliveriesPerSecond: Math.round(count / ((performance.now() - startedMs) / 1_000)),
    cpuUsPerDelivery: Math.round((used.user + used.system) / count),
  };
}

/** Size of the embedded store's file and its log, in bytes. */
export function fileBytes(folder: string): number {
  return ["uis.db", "uis.db-wal"]
    .map((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0)
    .reduce((sum, size) => sum + size, 0);
}
