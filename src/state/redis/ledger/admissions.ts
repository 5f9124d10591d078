import type { LimitOwner, LimitScope, LimitSnapshot, LimitState } from "../../../domain/call/rate-limits.js";
import { type Metric, periodAt } from "../../../domain/events/threshold.js";
import type { Admission, AdmitRequest, Budget, LimitRefusal, Refused } from "../../../domain/metering/ledger.js";
import type { KeySpace, ShardKeys } from "../connection/key-space.js";
import { Batches, KeyList, type TurnBatch } from "./batches.js";
import { ledgerScripts, type ScriptRunner } from "./scripts.js";

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

/** Where the windows, running requests and reservations of owners are. A model has no budget. */
export function encodeOwners(shard: ShardKeys, keys: KeyList, account: string, owners: readonly LimitOwner[]) {
  return Object.fromEntries(
    owners.map((owner) => [
      nameOfOwner(owner),
      [
        keys.placeOf(shard.window(account, owner)),
        keys.placeOf(shard.running(account, owner)),
        owner.kind === "model" ? 0 : keys.placeOf(shard.reserved(account, { kind: owner.kind, id: owner.id })),
      ],
    ]),
  );
}

/** How scripts and records call an owner of limits, or of a budget. */
export function nameOfOwner({ kind, id }: LimitOwner): string {
  return `${kind}:${id}`;
}

/** Beyond it the oldest are left to a sweep, which counts them as lost requests. */
const unansweredMax = 10_000;
const timeoutMs = 250;

/**
 * Admissions that timed out. The store may have taken them, or take them yet, while their requests were refused here or
 * run under limits of this process: they are taken back, lest a sweep finds them a minute later and counts requests that
 * never ran as lost ones.
 */
export class UnansweredAdmissions {
  readonly #space: KeySpace;
  readonly #waiting = new Map<string, AdmitRequest>();
  readonly #batches: Batches<AdmitRequest, true>;

  constructor(space: KeySpace, runner: ScriptRunner, turn: TurnBatch) {
    this.#space = space;
    this.#batches = new Batches(turn, async (index, requests) => {
      const shard = space.shard(index);
      const keys = new KeyList([shard.format, shard.live, shard.leases]);
      const items = requests.map(({ requestId, account, scopes, budgets }) => [
        requestId,
        encodeOwners(shard, keys, account, [...scopes.map(({ owner }) => owner), ...budgets.map(({ scope }) => scope)]),
      ]);
      await runner.run(ledgerScripts.forget, keys.names, [JSON.stringify(items)], timeoutMs);
      for (const { requestId } of requests) this.#waiting.delete(requestId);
      return requests.map(() => true as const);
    });
  }

  /** Behind the admission on the same connection, so the store takes it back even before it could answer. */
  note(request: AdmitRequest): void {
    const [oldest] = this.#waiting.keys();
    if (this.#waiting.size >= unansweredMax && oldest !== undefined) this.#waiting.delete(oldest);
    this.#waiting.set(request.requestId, request);
    this.#takeBack(request).catch(() => {
      // It waits on, for `takeAllBack`.
    });
  }

  /** It was asked for again and answered. */
  answered(requestId: string): void {
    this.#waiting.delete(requestId);
  }

  /** Rejects with `storage_unavailable` while the store does not take them. */
  async takeAllBack(): Promise<void> {
    await Promise.all([...this.#waiting.values()].map((request) => this.#takeBack(request)));
  }

  #takeBack(request: AdmitRequest): Promise<true> {
    return this.#batches.ask(this.#space.shardOf(request.account).index, request);
  }
}
