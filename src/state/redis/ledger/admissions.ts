import type { LimitOwner, LimitScope, LimitSnapshot, LimitState } from "../../../domain/call/rate-limits.js";
import { type Metric, periodAt } from "../../../domain/events/threshold.js";
import type { Admission, AdmitRequest, Budget, LimitRefusal, Refused } from "../../../domain/metering/ledger.js";
import type { ShardKeys } from "../key-space.js";
import { KeyList } from "./key-list.js";

/** As `admit.lua` spells them. */
export const letterOfMetric = { requests: "r", tokens: "t", cost: "n" } as const satisfies Record<Metric, string>;

type AdmitAnswer = readonly [
  requestsPlace: number,
  requestsRemaining: number,
  requestsResetMs: number,
  tokensPlace: number,
  tokensRemaining: number,
  tokensResetMs: number,
  what: "admitted" | "ended" | "budget" | LimitRefusal["which"],
  place: number,
  used: number | string,
  waitMs: number,
];

/** Keys and items of one call of `admit.lua`. Names of sums are those of the periods that `nowMs` lies in. */
export function encodeAdmissions(
  shard: ShardKeys,
  requests: readonly AdmitRequest[],
  nowMs: number,
): { readonly keys: readonly string[]; readonly items: string } {
  const keys = new KeyList([
    shard.format,
    shard.live,
    shard.leases,
    ...requests.map(({ requestId }) => shard.ended(requestId)),
  ]);
  const scopesOf = scopeEncoder(shard, keys);
  const items = requests.map((request) => [
    request.requestId,
    request.account,
    request.keyId ?? "",
    request.model,
    request.operation,
    request.reserve.tokens,
    request.reserve.costNano,
    request.promptTokens,
    request.leaseMs,
    scopesOf(request),
    request.budgets.map((budget) => encodeBudget(shard, keys, request.account, budget, nowMs)),
  ]);
  return { keys: keys.names, items: JSON.stringify(items) };
}

/** Requests of one caller come with the same list of scopes, which is then encoded once in a call. */
function scopeEncoder(shard: ShardKeys, keys: KeyList) {
  const known = new Map<AdmitRequest["scopes"], { readonly account: string; readonly encoded: readonly unknown[] }>();
  return ({ account, scopes }: AdmitRequest): readonly unknown[] => {
    const before = known.get(scopes);
    if (before?.account === account) return before.encoded;
    const encoded = scopes.map((scope) => encodeScope(shard, keys, account, scope));
    known.set(scopes, { account, encoded });
    return encoded;
  };
}

function encodeScope(shard: ShardKeys, keys: KeyList, account: string, { owner, limits }: LimitScope) {
  return [
    nameOfOwner(owner),
    keys.placeOf(shard.window(account, owner)),
    limits.concurrency === null ? 0 : keys.placeOf(shard.running(account, owner)),
    limits.requestsPerMinute ?? -1,
    limits.tokensPerMinute ?? -1,
    limits.concurrency ?? -1,
  ];
}

function encodeBudget(shard: ShardKeys, keys: KeyList, account: string, budget: Budget, nowMs: number) {
  const period = periodAt(budget.period, nowMs);
  return [
    nameOfOwner(budget.scope),
    keys.placeOf(shard.sums(account, budget.scope, period)),
    keys.placeOf(shard.reserved(account, budget.scope)),
    letterOfMetric[budget.metric],
    budget.limit.toString(),
    period.endMs,
  ];
}

/** What `admit.lua` answered to a request. */
export function decodeAdmission(request: AdmitRequest, answer: unknown, nowMs: number): Admission {
  const [requestsPlace, requestsRemaining, requestsResetMs, tokensPlace, tokensRemaining, tokensResetMs, what, ...why] =
    answer as AdmitAnswer;
  if (what === "ended") return admittedUnlimited;
  const { scopes } = request;
  if (scopes.length === 0 && what === "admitted") return admittedUnlimited;
  const requests = stateOf(scopes[requestsPlace - 1], "requestsPerMinute", requestsRemaining, requestsResetMs);
  const tokens = stateOf(scopes[tokensPlace - 1], "tokensPerMinute", tokensRemaining, tokensResetMs);
  const snapshot = snapshotOf(requests, tokens);
  if (what === "admitted") return { admitted: true, degraded: false, snapshot };
  const refusal = refusalOf(request, what, why, nowMs);
  return scopes.length === 0
    ? { admitted: false, degraded: false, refusal }
    : { admitted: false, degraded: false, refusal, snapshot };
}

const admittedUnlimited: Admission = Object.freeze({ admitted: true, degraded: false });

/** Spelled out, because an object that is put together of optional parts costs a microsecond. */
function snapshotOf(requests: LimitState | undefined, tokens: LimitState | undefined): LimitSnapshot {
  if (requests === undefined) return tokens === undefined ? {} : { tokens };
  return tokens === undefined ? { requests } : { requests, tokens };
}

function stateOf(
  scope: LimitScope | undefined,
  which: "requestsPerMinute" | "tokensPerMinute",
  remaining: number,
  resetMs: number,
): LimitState | undefined {
  const limit = scope?.limits[which];
  if (scope === undefined || limit === undefined || limit === null) return undefined;
  return { owner: scope.owner, limit, remaining, resetMs };
}

function refusalOf(
  request: AdmitRequest,
  what: "budget" | LimitRefusal["which"],
  [place, used, waitMs]: readonly [place: number, used: number | string, waitMs: number],
  nowMs: number,
): Refused["refusal"] {
  if (what === "budget") return budgetRefusal(request, request.budgets[place - 1] as Budget, BigInt(used), nowMs);
  const { owner, limits } = request.scopes[place - 1] as LimitScope;
  const limit = {
    requests: limits.requestsPerMinute,
    tokens: limits.tokensPerMinute,
    concurrency: limits.concurrency,
  }[what] as number;
  return {
    which: what,
    owner,
    limit,
    used: Number(used),
    requested: what === "tokens" ? request.reserve.tokens : 1,
    retryAfterMs: waitMs < 0 ? null : waitMs,
  };
}

function budgetRefusal({ reserve }: AdmitRequest, budget: Budget, used: bigint, nowMs: number): Refused["refusal"] {
  const { id: thresholdId, metric, limit, period } = budget;
  const requested = { requests: 1, tokens: reserve.tokens, cost: reserve.costNano }[metric];
  const resetsAtMs = periodAt(period, nowMs).endMs;
  return { which: "budget", thresholdId, metric, limit, used, requested: BigInt(requested), resetsAtMs };
}

/** How scripts and records call an owner of limits, or of a budget. */
export function nameOfOwner({ kind, id }: LimitOwner): string {
  return `${kind}:${id}`;
}
