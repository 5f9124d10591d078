import type { Clock } from "../../domain/call/ports.js";
import { invariant } from "../../domain/call/service-error.js";
import type { EventDraft } from "../../domain/events/event.js";
import {
  crossingMark,
  periodAt,
  sumOf,
  type Threshold,
  thresholdEvent,
  usageScopeOf,
  valuesOf,
} from "../../domain/events/threshold.js";
import type { Budget, Ledger, Settled, Settlement } from "../../domain/metering/ledger.js";
import { LocalAdmission } from "../../domain/metering/local-admission.js";
import { dropOldest } from "./bounded.js";
import type { UsageTable } from "./usage-table.js";
import type { VolatileDeliveryQueue } from "./volatile-delivery-queue.js";
import type { VolatileEndpointStore } from "./volatile-endpoint-store.js";

const leasesMax = 100_000;
/** Crossings of thresholds that were told; beyond it the oldest are forgotten. */
const marksMax = 200_000;

const counted: Settled = Object.freeze({ duplicate: false, crossed: Object.freeze([]) });
const duplicate: Settled = Object.freeze({ duplicate: true, crossed: Object.freeze([]) });

export interface VolatileLedgerParts {
  readonly clock: Clock;
  readonly usage: UsageTable;
  readonly endpoints: Pick<VolatileEndpointStore, "subscribed">;
  readonly deliveries: Pick<VolatileDeliveryQueue, "add">;
}

/** A ledger in memory. Answers at once. At most 100,000 requests run; one more is `server_is_overloaded`. */
export function createVolatileLedger({ clock, usage, endpoints, deliveries }: VolatileLedgerParts): Ledger {
  const admission = new LocalAdmission({ clock, leasesMax });
  const marks = new Map<string, true>();

  const usedOf = (account: string, { metric, scope, period }: Budget): bigint =>
    sumOf(metric, usage.used(account, scope, periodAt(period, clock.now())));

  const emit = (account: string, event: EventDraft, atMs: number): void => {
    deliveries.add(event, endpoints.subscribed(account, event.type), atMs);
  };

  /** Tells every value of the threshold that its sum has reached and that was not told; how many. */
  const tellReached = (threshold: Threshold, atMs: number): number => {
    const { account, metric } = threshold;
    const period = periodAt(threshold.period, atMs);
    const sum = sumOf(metric, usage.used(account, usageScopeOf(threshold), period));
    let told = 0;
    for (const value of valuesOf(threshold)) {
      if (sum < value.value) break;
      const mark = crossingMark(threshold, value, period);
      if (marks.has(mark)) continue;
      marks.set(mark, true);
      dropOldest(marks, marksMax);
      const { id, type, prefix, suffix } = thresholdEvent(threshold, value, period, atMs);
      emit(account, { id, type, body: `${prefix}${sum}${suffix}` }, atMs);
      told += 1;
    }
    return told;
  };

  return {
    admit: (request) => admission.admit(request, (budget) => usedOf(request.account, budget)),
    async chargeRefused(request) {
      admission.chargeRefused(request);
    },
    async renew(progress, leaseMs) {
      admission.renew(progress, leaseMs);
    },
    settle(settlement) {
      checkCounts(settlement);
      const { requestId, account, event, thresholds } = settlement;
      const wasLive = admission.end(requestId, settlement.degraded ? null : chargeOf(settlement)) !== null;
      if (!wasLive && !admission.noteEnded(requestId)) return duplicate;
      const atMs = settlement.endedAtMs ?? clock.now();
      usage.add(settlement, settlement, atMs);
      if (event !== null) emit(account, event, atMs);
      if (thresholds.length === 0) return counted;
      const crossed = thresholds.flatMap((threshold) =>
        new Array<string>(tellReached(threshold, atMs)).fill(threshold.id),
      );
      return { duplicate: false, crossed };
    },
    async sweepLost(max, leaseMs) {
      return admission.sweep(max, leaseMs);
    },
    async liveLeases() {
      return admission.live;
    },
    async resetWindow(account, owner) {
      admission.resetWindow(account, owner);
    },
    async inspect(account, scopes) {
      return admission.inspect(account, scopes);
    },
  };
}

function chargeOf({ promptTokens, completionTokens, costNano }: Settlement) {
  return { tokens: promptTokens + completionTokens, costNano };
}

function checkCounts({ promptTokens, completionTokens, cachedTokens, costNano }: Settlement): void {
  invariant(isCount(promptTokens), "promptTokens is a count");
  invariant(isCount(completionTokens), "completionTokens is a count");
  invariant(isCount(cachedTokens), "cachedTokens is a count");
  invariant(isCount(costNano), "costNano is a count");
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}
