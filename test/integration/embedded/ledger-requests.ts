import { periodAt, type UsageSums } from "../../../src/domain/events/events.js";
import type { AdmitRequest, Settlement } from "../../../src/domain/metering/ledger.js";
import type { State } from "../../../src/domain/service/state.js";
import type { Request } from "../../../src/state/embedded/database/sqlite.js";
import { settleAll } from "../../../src/state/embedded/database/worker-link.js";
import { admission, settlement } from "../../support/records.js";

const account = "acme";
const keyId = "key_000000000000000000000001";
const common = { account, keyId, model: "org/model" };

/** Prompt tokens of request `number`. The numbers differ, so that a sum shows which requests it includes. */
export const promptTokensOf = (number: number): number => 1 + (number % 1000);

export function requestIdOf(number: number): string {
  return `req_${number.toString(16).padStart(32, "0")}`;
}

export function numberedAdmission(number: number, changes: Partial<AdmitRequest> = {}): AdmitRequest {
  return admission(requestIdOf(number), { ...common, promptTokens: promptTokensOf(number), ...changes });
}

export function numberedSettlement(number: number, changes: Partial<Settlement> = {}): Settlement {
  const tokens = { promptTokens: promptTokensOf(number), completionTokens: 1 };
  return settlement(requestIdOf(number), { ...common, ...tokens, ...changes });
}

/** The account's sums of the current month. */
export function usedThisMonth(state: State): Promise<UsageSums> {
  return state.usage.used(account, { kind: "account", id: account }, periodAt("month", state.now()));
}

/** The request that the ledger sends to the store's thread for settlements of one batch. */
export function settleRequest(settlements: readonly Settlement[], atMs: number): Request {
  const rest = { nowMs: atMs, endedAtMs: atMs, hasRow: false, wantsSums: false, resolve: () => {}, reject: () => {} };
  return settleAll(settlements.map((each) => ({ settlement: each, ...rest }))).request;
}
