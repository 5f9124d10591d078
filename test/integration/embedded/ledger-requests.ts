import { periodAt, type UsageSums } from "../../../src/domain/events/threshold.js";
import type { AdmitRequest, Settlement } from "../../../src/domain/metering/ledger.js";
import type { State } from "../../../src/domain/service/state.js";

const account = "acme";
const keyId = "key_000000000000000000000001";
const common = { account, keyId, model: "org/model", operation: "create_chat_completion" } as const;

/** What request `number` uses: different for each, so that a sum tells which ones are in it. */
export const promptTokensOf = (number: number): number => 1 + (number % 1000);

export function requestIdOf(number: number): string {
  return `req_${number.toString(16).padStart(32, "0")}`;
}

export function admission(number: number, changes: Partial<AdmitRequest> = {}): AdmitRequest {
  return {
    ...common,
    requestId: requestIdOf(number),
    reserve: { tokens: 0, costNano: 0 },
    promptTokens: promptTokensOf(number),
    leaseMs: 60_000,
    scopes: [],
    budgets: [],
    ...changes,
  };
}

export function settlement(number: number, changes: Partial<Settlement> = {}): Settlement {
  return {
    ...common,
    requestId: requestIdOf(number),
    why: "completed",
    error: null,
    promptTokens: promptTokensOf(number),
    completionTokens: 1,
    cachedTokens: 0,
    costNano: 0,
    latencyMs: 1,
    degraded: false,
    event: null,
    thresholds: [],
    endedAtMs: null,
    ...changes,
  };
}

/** The account's sums of the current month. */
export function usedThisMonth(state: State): Promise<UsageSums> {
  return state.usage.used(account, { kind: "account", id: account }, periodAt("month", state.now()));
}
